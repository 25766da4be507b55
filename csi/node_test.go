package csi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/pod-info-fuse/install"
)

func TestAVolumeIsPublishedAndUnpublished(t *testing.T) {
	w := serve(t)
	target := w.target(podUID, "info")
	w.mustPublish(target, with("facts", "pod.name"), with("csi.storage.k8s.io/serviceAccount.tokens", `{"":{"token":"hunter2"}}`))
	w.reads(target)
	if got, err := os.ReadFile(filepath.Join(target, "pod.name")); err != nil || string(got) != "web-0\n" {
		t.Errorf("pod.name is %q, %v", got, err)
	}
	w.mustPublish(target)
	w.reads(target)
	w.mustUnpublish(target)
	w.isGone(target)
	w.mustUnpublish(target)
	w.isGone(target)
	if got := w.log.with("published"); got != 3 || w.log.with("hunter2") != 0 {
		t.Errorf("there are %d lines, want one of publish, and two of unpublish: %q", got, w.log.lines)
	}
}

// isError checks an error's code and message.
func isError(t *testing.T, err error, code codes.Code, message string) {
	t.Helper()
	if got := status.Convert(err); got.Code() != code || !strings.Contains(got.Message(), message) {
		t.Errorf("%s: %s; want %s, and %q", got.Code(), got.Message(), code, message)
	}
}

func TestBadInputIsRefusedAndLeavesNothing(t *testing.T) {
	w := serve(t)
	target := w.target(podUID, "info")
	parent := filepath.Dir(target)
	other := w.target(otherUID, "info")
	changed := func(change func(r *spec.NodePublishVolumeRequest)) func(*spec.NodePublishVolumeRequest) {
		return change
	}
	at := func(path string) func(*spec.NodePublishVolumeRequest) {
		return func(r *spec.NodePublishVolumeRequest) { r.TargetPath = path }
	}
	without := func(key string) func(*spec.NodePublishVolumeRequest) {
		return func(r *spec.NodePublishVolumeRequest) { delete(r.VolumeContext, key) }
	}
	mount := func(m *spec.VolumeCapability_MountVolume) func(*spec.NodePublishVolumeRequest) {
		return func(r *spec.NodePublishVolumeRequest) {
			r.VolumeCapability.AccessType = &spec.VolumeCapability_Mount{Mount: m}
		}
	}
	for _, row := range []struct {
		problem string
		mutate  func(*spec.NodePublishVolumeRequest)
		code    codes.Code
		message string
	}{
		{"no volume id", changed(func(r *spec.NodePublishVolumeRequest) { r.VolumeId = "" }), codes.InvalidArgument, "volume_id is missing"},
		{"no target", at(""), codes.InvalidArgument, "is not of the form"},
		{"a relative target", at(target[1:]), codes.InvalidArgument, "is not of the form"},
		{"a target with a detour", at(parent + "/../info/mount"), codes.InvalidArgument, "is not of the form"},
		{"a target that is the parent", at(filepath.Dir(target) + "/.."), codes.InvalidArgument, "is not of the form"},
		{"a target with a slash at its end", at(target + "/"), codes.InvalidArgument, "is not of the form"},
		{"a target of another pod", at(other), codes.InvalidArgument, "belongs to pod " + otherUID},
		{"a target elsewhere", at("/mnt"), codes.InvalidArgument, "is not of the form"},
		{"a target below another directory", at(strings.Replace(target, w.kubelet, "/var/lib/other", 1)), codes.InvalidArgument, "--kubelet-dir"},
		{"a target that is the kubelet's directory", at(w.kubelet), codes.InvalidArgument, "is not of the form"},
		{"a target of another kind of volume", at(strings.Replace(target, "kubernetes.io~csi", "kubernetes.io~empty-dir", 1)), codes.InvalidArgument, "is not of the form"},
		{"a target too deep", at(target + "/mount"), codes.InvalidArgument, "is not of the form"},
		{"a target of no pod", at(strings.Replace(target, podUID, "web-0", 1)), codes.InvalidArgument, "is not of the form"},
		{"a target without its parent", at(strings.Replace(target, "info", "none", 1)), codes.Internal, "no such file or directory"},
		{"a target that is too long", at(strings.Replace(target, "info", strings.Repeat("i", 4096), 1)), codes.Internal, "file name too long"},
		{"a target with a zero", at(target + "\x00"), codes.Internal, "invalid argument"},
		{"no capability", changed(func(r *spec.NodePublishVolumeRequest) { r.VolumeCapability = nil }), codes.InvalidArgument, "does not ask for a mounted volume"},
		{"no access type", changed(func(r *spec.NodePublishVolumeRequest) { r.VolumeCapability.AccessType = nil }), codes.InvalidArgument, "does not ask for a mounted volume"},
		{"a block volume, where a kubelet has those", changed(func(r *spec.NodePublishVolumeRequest) {
			r.TargetPath = filepath.Join(w.kubelet, "plugins/kubernetes.io/csi/volumeDevices/publish/pv", podUID)
			r.VolumeCapability.AccessType = &spec.VolumeCapability_Block{Block: &spec.VolumeCapability_BlockVolume{}}
		}), codes.InvalidArgument, "volumeMode: Filesystem"},
		{"a file system's type", mount(&spec.VolumeCapability_MountVolume{FsType: "ext4"}), codes.InvalidArgument, `"ext4" is asked for`},
		{"mount options", mount(&spec.VolumeCapability_MountVolume{MountFlags: []string{"password=hunter2"}}), codes.InvalidArgument, "mountOptions are given"},
		{"a Secret", changed(func(r *spec.NodePublishVolumeRequest) { r.Secrets = map[string]string{"hunter2": "hunter2"} }), codes.InvalidArgument, "remove nodePublishSecretRef"},
		{"no attributes", changed(func(r *spec.NodePublishVolumeRequest) { r.VolumeContext = nil }), codes.InvalidArgument, "podInfoOnMount"},
		{"no pod info", without("csi.storage.k8s.io/pod.uid"), codes.InvalidArgument, "podInfoOnMount"},
		{"not said whether it is ephemeral", without("csi.storage.k8s.io/ephemeral"), codes.InvalidArgument, "podInfoOnMount"},
		{"neither ephemeral nor persistent", with("csi.storage.k8s.io/ephemeral", "False"), codes.InvalidArgument, `ephemeral is "False"`},
		{"an unknown attribute", with("colour", "blue"), codes.InvalidArgument, `"colour", which is not known; there is facts`},
		{"an attribute that looks like the kubelet's", with("csi.\u017ftorage.k8s.io/pod.uid", otherUID), codes.InvalidArgument, "which is not known"},
		{"an option of a FlexVolume", with("kubernetes.io/pod.uid", otherUID), codes.InvalidArgument, `"kubernetes.io/pod.uid", which is not known`},
		{"another pod's uid", with("csi.storage.k8s.io/pod.uid", otherUID), codes.InvalidArgument, "belongs to pod " + podUID},
		{"a uid that is none", with("csi.storage.k8s.io/pod.uid", ""), codes.InvalidArgument, "belongs to pod " + podUID},
		{"an unknown fact", with("facts", "node.secrets"), codes.InvalidArgument, "node.secrets"},
		{"a request that is too long", with("facts", strings.Repeat("pod.name,", 100000)), codes.ResourceExhausted, "larger than max"},
		{"a pod's name that is too long", with("csi.storage.k8s.io/pod.name", strings.Repeat("w", 300)), codes.InvalidArgument, "has 300 bytes"},
	} {
		t.Run(row.problem, func(t *testing.T) {
			isError(t, w.publish(target, row.mutate), row.code, row.message)
			isError(t, w.publish(target, persistent, row.mutate), row.code, row.message)
			w.isGone(target)
			w.isGone(other)
			if names, err := os.ReadDir(parent); err != nil || len(names) > 0 {
				t.Errorf("left are %v, %v", names, err)
			}
		})
	}
	if w.log.with("hunter2") > 0 {
		t.Errorf("it logs a password: %q", w.log.lines)
	}
	for _, bad := range []struct {
		id, target string
		message    string
	}{
		{"", target, "volume_id is missing"},
		{"v", "", "is not of the form"},
		{"v", "mount", "is not of the form"},
		{"v", "/mnt", "is not of the form"},
		{"v", w.kubelet, "is not of the form"},
	} {
		_, err := w.NodeUnpublishVolume(w.ctx(), &spec.NodeUnpublishVolumeRequest{VolumeId: bad.id, TargetPath: bad.target})
		isError(t, err, codes.InvalidArgument, bad.message)
	}
}

func TestEveryAccessModeIsAccepted(t *testing.T) {
	w := serve(t)
	target := w.target(podUID, "info")
	for number, name := range spec.VolumeCapability_AccessMode_Mode_name {
		for _, readOnly := range []bool{true, false} {
			err := w.publish(target, persistent, func(r *spec.NodePublishVolumeRequest) {
				r.VolumeCapability.AccessMode.Mode, r.Readonly = spec.VolumeCapability_AccessMode_Mode(number), readOnly
			})
			if err != nil {
				t.Errorf("%s, read-only %v: %v", name, readOnly, err)
			}
		}
	}
	w.mustUnpublish(target)
	w.isGone(target)
}

// What is in the place of a target is not ours, and stays.
func TestAnotherThingAtTheTargetIsLeftAlone(t *testing.T) {
	w := serve(t)
	elsewhere := t.TempDir()
	for problem, make := range map[string]struct {
		make, remove func(target string) error
		message      string
	}{
		"a file": {
			func(target string) error { return os.WriteFile(target, []byte("precious"), 0o600) },
			os.Remove, "not a directory",
		},
		"a symbolic link": {
			func(target string) error { return os.Symlink(elsewhere, target) },
			os.Remove, "symbolic link",
		},
		"a link in the place of its parent": {
			func(target string) error {
				if err := os.Remove(filepath.Dir(target)); err != nil {
					return err
				}
				return os.Symlink(elsewhere, filepath.Dir(target))
			},
			func(target string) error { return os.Remove(filepath.Dir(target)) }, "symbolic link",
		},
		"a mount of somebody else": {
			func(target string) error {
				if err := os.Mkdir(target, 0o750); err != nil {
					return err
				}
				return unix.Mount("theirs", target, "tmpfs", 0, "")
			},
			func(target string) error {
				if err := unix.Unmount(target, 0); err != nil {
					return err
				}
				return os.Remove(target)
			}, "mount point of something else",
		},
	} {
		t.Run(problem, func(t *testing.T) {
			target := w.target(podUID, strings.ReplaceAll(problem, " ", "-"))
			if err := make.make(target); err != nil {
				t.Fatal(err)
			}
			before := look(t, target)
			isError(t, w.publish(target), codes.Internal, make.message)
			if err := w.unpublish(target); err == nil {
				t.Error("unpublish succeeds")
			}
			if after := look(t, target); after != before {
				t.Errorf("there is %s, and was %s", after, before)
			}
			if names, err := os.ReadDir(elsewhere); err != nil || len(names) > 0 {
				t.Errorf("elsewhere there are %v, %v", names, err)
			}
			if err := make.remove(target); err != nil {
				t.Fatal(err)
			}
			w.mustUnpublish(target)
			w.isGone(target)
		})
	}
}

// look describes what is at a path, or in the place of its parent.
func look(t *testing.T, path string) string {
	t.Helper()
	var all string
	for _, path := range []string{filepath.Dir(path), path} {
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return all + err.Error()
		}
		all += fmt.Sprintf("%d %d %o, ", stat.Dev, stat.Ino, stat.Mode)
	}
	return all
}

func TestFiftyPublicationsOfATargetAtOnce(t *testing.T) {
	w := serve(t)
	target := w.target(podUID, "info")
	var all sync.WaitGroup
	results := make(chan error, 50)
	for range cap(results) {
		all.Go(func() { results <- w.publish(target) })
	}
	all.Wait()
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if len(mountsOn(target)) != 1 {
		t.Errorf("mounted are %q", mountsOn(target))
	}
	w.reads(target)
	w.mustUnpublish(target)
	w.isGone(target)
}

func TestPublicationsRaceUnpublications(t *testing.T) {
	w := serve(t)
	target := w.target(podUID, "info")
	until := time.Now().Add(forever)
	var all sync.WaitGroup
	var mu sync.Mutex // guards count
	count := map[string]int{}
	goesOn := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return (count["publish"] < 10 || count["unpublish"] < 10) && time.Now().Before(until)
	}
	for range 4 {
		for name, do := range map[string]func() error{
			"publish":   func() error { return w.publish(target) },
			"unpublish": func() error { return w.unpublish(target) },
		} {
			all.Go(func() {
				for goesOn() {
					if do() == nil { // or the other one was faster
						mu.Lock()
						count[name]++
						mu.Unlock()
					}
				}
			})
		}
	}
	all.Wait()
	if count["publish"] < 10 || count["unpublish"] < 10 {
		t.Errorf("succeeded have %v", count)
	}
	w.mustUnpublish(target)
	w.isGone(target)
	w.mustPublish(target)
	w.reads(target)
	w.mustUnpublish(target)
	w.isGone(target)
}

func TestManyVolumesAtOnce(t *testing.T) {
	w := serve(t)
	var targets []string
	for i := range 40 {
		targets = append(targets, w.target(podUID, fmt.Sprint("info-", i)))
	}
	each := func(do func(target string) error) {
		var all sync.WaitGroup
		for _, target := range targets {
			all.Go(func() {
				if err := do(target); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	each(func(target string) error { return w.publish(target) })
	for _, target := range targets {
		w.reads(target)
	}
	each(w.unpublish)
	for _, target := range targets {
		w.isGone(target)
	}
}

func TestADeadVolumeIsUnpublished(t *testing.T) {
	w := serve(t)
	target := w.target(podUID, "info")
	w.mustPublish(target)
	file, err := os.Open(filepath.Join(target, "pod"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() // it is in use, too
	w.kill()
	w.mustUnpublish(target)
	w.isGone(target)
}

// A pod that is deleted while there is no plugin ends when there is one again.
func TestAVolumeOfAnotherPluginIsUnpublished(t *testing.T) {
	w := place(t)
	target, dead := w.target(podUID, "info"), w.target(podUID, "dead")
	p := w.start()
	w.mustPublish(target)
	w.mustPublish(dead)
	_ = p.end(unix.SIGKILL)
	w.kill()
	w.start()
	w.mustUnpublish(dead)
	w.mustUnpublish(target)
	w.isGone(target)
	w.isGone(dead)
	never := w.target(podUID, "never")
	w.mustUnpublish(never)
	w.isGone(never)
}

// Where the driver was uninstalled, its volumes are gone, and pods that had one can end.
func TestWithoutADriverNothingIsPublishedAndAllIsUnpublished(t *testing.T) {
	w := serve(t)
	back := w.takeAway()
	target := w.target(podUID, "info")
	isError(t, w.publish(target), codes.FailedPrecondition, "is not installed on the host")
	w.isGone(target)
	if _, err := w.Probe(w.ctx(), &spec.ProbeRequest{}); err == nil {
		t.Error("Probe succeeds")
	}
	if err := os.Mkdir(target, 0o750); err != nil {
		t.Fatal(err)
	}
	w.mustUnpublish(target)
	w.isGone(target)
	back()
	if _, err := w.Probe(w.ctx(), &spec.ProbeRequest{}); err != nil {
		t.Error(err)
	}
	w.mustPublish(target)
	back = w.takeAway()
	isError(t, w.unpublish(target), codes.FailedPrecondition, "is not installed on the host")
	back()
	w.mustUnpublish(target)
	w.isGone(target)
}

// A program that is in the driver's place must not do more than fail.
func TestADriverThatIsNone(t *testing.T) {
	w := serve(t)
	target := w.target(podUID, "info")
	back := w.takeAway()
	for script, message := range map[string]string{
		"echo hello":                          `answers "hello\n"`,
		"exit 3":                              "exit status 3",
		"head -c 1000000 /dev/zero":           "that is not a driver's answer",
		`echo '{"status":"Not supported"}'`:   "Not supported",
		`echo '{"status":"Failure"}'`:         "Failure",
		`echo '{"status":"Success"}' extra`:   "that is not a driver's answer",
		`echo '{"status":"Success"}'; exit 1`: "exit status 1",
	} {
		if err := os.WriteFile(w.binary, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		isError(t, w.publish(target), codes.Internal, message)
		w.isGone(target)
	}
	back()
}

func TestAPanicIsTheEndOfItsRequestOnly(t *testing.T) {
	w := place(t)
	w.plugin.Log = func(format string, args ...any) {
		if strings.HasPrefix(format, "published") {
			panic("out of order")
		}
		w.log.add(format, args...)
	}
	w.serve()
	target := w.target(podUID, "info")
	isError(t, w.publish(target), codes.Internal, "out of order")
	if w.log.with("panic: out of order") != 1 || w.log.with("NodePublishVolume") != 2 {
		t.Errorf("it logs %q", w.log.lines)
	}
	w.mustPublish(target) // the target is free again
	w.mustUnpublish(target)
	w.isGone(target)
}

// The work of a request is on a thread of its own.
func TestAPanicOnTheHostIsTheEndOfItsRequestOnly(t *testing.T) {
	w := place(t)
	w.plugin.Log = func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); strings.Contains(line, "exit status 3") {
			panic("out of order")
		}
		w.log.add(format, args...)
	}
	w.installs("exit 3")
	w.serve()
	_, err := w.Probe(w.ctx(), &spec.ProbeRequest{})
	isError(t, err, codes.Internal, "out of order")
	if w.log.with("panic: out of order") != 1 {
		t.Errorf("it logs %q", w.log.lines)
	}
	w.installs("")
	w.probes()
}

func TestWhatThePluginSaysOfItself(t *testing.T) {
	w := serve(t)
	info, err := w.GetPluginInfo(w.ctx(), &spec.GetPluginInfoRequest{})
	if err != nil || info.GetName() != "pod-info-fuse."+vendor || info.GetVendorVersion() != "1.2.3" {
		t.Errorf("info: %v, %v", info, err)
	}
	if all, err := w.GetPluginCapabilities(w.ctx(), &spec.GetPluginCapabilitiesRequest{}); err != nil || len(all.GetCapabilities()) > 0 {
		t.Errorf("plugin's capabilities: %v, %v", all, err)
	}
	if all, err := w.NodeGetCapabilities(w.ctx(), &spec.NodeGetCapabilitiesRequest{}); err != nil || len(all.GetCapabilities()) > 0 {
		t.Errorf("node's capabilities: %v, %v", all, err)
	}
	if node, err := w.NodeGetInfo(w.ctx(), &spec.NodeGetInfoRequest{}); err != nil || node.GetNodeId() != "node-1" {
		t.Errorf("node: %v, %v", node, err)
	}
	_, err = w.NodeGetVolumeStats(w.ctx(), &spec.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: "/"})
	isError(t, err, codes.Unimplemented, "")
}

// Without Binary, the driver is where installers put it.
func TestTheDriverIsFoundWhereItIsInstalled(t *testing.T) {
	w := place(t)
	w.plugin.Binary = ""
	w.serve()
	_, err := w.Probe(context.Background(), &spec.ProbeRequest{})
	isError(t, err, codes.FailedPrecondition, filepath.Dir(w.socket))
	installed := install.Target{PluginDir: filepath.Dir(w.socket), Driver: w.plugin.Driver}.Binary()
	if !slices.Contains(strings.Split(err.Error(), `"`), installed) {
		t.Errorf("it does not say where it has looked: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(installed), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(driver, installed); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Probe(context.Background(), &spec.ProbeRequest{}); err != nil {
		t.Error(err)
	}
}
