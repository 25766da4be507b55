package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/survive/volume"
)

// unrecorded mounts a server volume, and loses its record.
func (n node) unrecorded() (server string) {
	n.t.Helper()
	server = n.volume(podUID, "data-server")
	n.must("mount", server, options(podUID, "serves", "data"))
	n.loses(server)
	return server
}

func (n node) loses(server string) {
	n.t.Helper()
	records := podfuse.Layout{RunDir: n.runDir}.ServerVolumes()
	if ids, err := records.IDs(); err != nil || len(ids) != 1 || ids[0] != volume.NewID(server) {
		n.t.Fatalf("records: %v, %v", ids, err)
	}
	must(n.t, records.Delete(volume.NewID(server)))
}

// isUnrecorded checks that status has one volume, which is mounted and has no record.
func (n node) isUnrecorded(server string) {
	n.t.Helper()
	s := n.status().Volumes
	if len(s) != 1 || s[0].State != "unrecorded" || s[0].Dir != server || s[0].PodUID != podUID || s[0].ID != volume.NewID(server).String() {
		n.t.Errorf("status: %+v", s)
	}
}

// isRefused checks that a command is refused for a volume, which stays.
func (n node) isRefused(server string, output []byte, err error) {
	n.t.Helper()
	if exitStatus(err) != 1 || !strings.Contains(string(output), "volumes are in use") || !strings.Contains(string(output), server) {
		n.t.Errorf("%v: %s", err, output)
	}
	if count := n.isMounted(server); count != 1 {
		n.t.Errorf("%d mounts", count)
	}
}

func TestAServerVolumeWithoutARecordIsInUse(t *testing.T) {
	for door, csi := range map[string]bool{"FlexVolume": false, "CSI": true} {
		t.Run(door, func(t *testing.T) {
			n := newNode(t)
			n.csi = csi
			server := n.unrecorded()
			n.isUnrecorded(server)
			output, err := n.command("stop").CombinedOutput()
			n.isRefused(server, output, err)
			eventually(t, "the driver has all its processes, and was not stopped", func() bool { return len(n.processes()) >= 4 })
			// Nobody can tell from its path what it serves.
			why := server + ": its record is lost, and its path does not tell what it is for"
			if output, err := n.command("restore").CombinedOutput(); err == nil || !strings.Contains(string(output), why) {
				t.Errorf("restore: %v: %s", err, output)
			}
			n.isUnrecorded(server)

			n.must("unmount", server)
			if s := n.status().Volumes; len(s) != 0 || n.isMounted(server) != 0 {
				t.Errorf("unmounted, there are %d mounts, and status %+v", n.isMounted(server), s)
			}
			if output, err := n.command("stop").CombinedOutput(); err != nil || len(output) > 0 {
				t.Errorf("stop: %v: %s", err, output)
			}
			n.isGone()
		})
	}
}

func TestStopForceUnmountsAServerVolumeWithoutARecord(t *testing.T) {
	t.Parallel()
	for loss, emptied := range map[string]bool{"of its record": false, "of its FIFO, too": true} {
		t.Run(loss, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			server := n.unrecorded()
			if emptied { // by rm -rf of the run directory
				must(t, os.Remove(podfuse.Layout{RunDir: n.runDir}.FIFO(volume.NewID(server))))
				n.isUnrecorded(server)
			}
			if output, err := n.command("stop", "--force").CombinedOutput(); err != nil || len(output) > 0 {
				t.Errorf("%v: %s", err, output)
			}
			n.isGone()
		})
	}
}

func TestUninstallRefusesAServerVolumeWithoutARecord(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	server := n.unrecorded()
	output, err := n.installer("uninstall").CombinedOutput()
	n.isRefused(server, output, err)
	if _, err := os.Stat(n.path); err != nil {
		t.Errorf("the driver: %v", err)
	}
}

// The kubelet calls mount again for a volume of CSI, and that tells all.
func TestAMountMakesTheRecordOfAServerVolumeAnew(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	n.loses(server)
	n.must("mount", server, options(podUID, "serves", "data"))
	if count := n.isMounted(server); count != 1 {
		t.Errorf("%d mounts", count)
	}
	for _, v := range n.status().Volumes {
		if v.State != "ok" {
			t.Errorf("status: %+v", v)
		}
	}
	n.serves(client, server)
	if got := n.reads(client, server); got != "hello" {
		t.Errorf("read %q", got)
	}
}

// The whole run directory is lost, with the tmpfs, as the driver's processes are.
func TestAServerVolumeOfALostRunDirectory(t *testing.T) {
	for door, csi := range map[string]bool{"FlexVolume": false, "CSI": true} {
		t.Run(door, func(t *testing.T) {
			other := newNode(t)
			other.csi = csi
			theirs := other.volume(otherUID, "data-server")
			other.must("mount", theirs, options(otherUID, "serves", "data"))
			n := newNode(t)
			n.csi = csi
			server := n.unrecorded()
			eventually(t, "there are a standby and a spare", func() bool {
				s := n.status()
				return s.Daemon.Active != nil && s.Daemon.Standby != nil && s.Mounter.PID != 0 && s.Mounter.Spare != 0
			})
			s := n.status()
			n.killAll(s.Daemon.Active.PID, s.Daemon.Standby.PID, s.Mounter.PID, s.Mounter.Spare)
			must(t, errors.Join(unix.Unmount(n.runDir+"/fs", unix.MNT_DETACH), unix.Unmount(n.runDir+"/servers", unix.MNT_DETACH),
				unix.Unmount(n.runDir+"/launcher", unix.MNT_DETACH), unix.Unmount(n.runDir+"/socket", unix.MNT_DETACH), os.RemoveAll(n.runDir)))

			n.isUnrecorded(server)
			output, err := n.command("stop").CombinedOutput()
			n.isRefused(server, output, err)
			// That of another installation is not touched.
			if output, err := n.command("stop", "--force").CombinedOutput(); err != nil || len(output) > 0 {
				t.Errorf("stop --force: %v: %s", err, output)
			}
			n.isGone()
			if s := other.status().Volumes; len(s) != 1 || s[0].State != "ok" || other.isMounted(theirs) != 1 {
				t.Errorf("another installation: %d mounts, status %+v", other.isMounted(theirs), s)
			}
		})
	}
}

// What is another's is not told, whichever door it came by.
func TestAServerVolumeWithoutARecordOfAnotherInstallation(t *testing.T) {
	for door, csi := range map[string]bool{"FlexVolume": false, "CSI": true} {
		t.Run(door, func(t *testing.T) {
			other, n := newNode(t), newNode(t)
			other.csi = csi
			server := other.unrecorded()
			if s := n.status().Volumes; len(s) != 0 {
				t.Errorf("status: %+v", s)
			}
			if output, err := n.command("stop").CombinedOutput(); err != nil || len(output) > 0 {
				t.Errorf("stop: %v: %s", err, output)
			}
			other.isUnrecorded(server)
		})
	}
}

// A kubelet's mounts for a subPath of the volume are no volumes.
func TestASubPathIsNoServerVolumeWithoutARecord(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	server := n.unrecorded()
	subPath := filepath.Join(n.kubelet, "pods", podUID, "volume-subpaths", "data-server", "sshfs", "1")
	must(t, os.MkdirAll(filepath.Dir(subPath), 0o750))
	must(t, os.WriteFile(subPath, nil, 0o600))
	must(t, unix.Mount(server+"/fuse", subPath, "", unix.MS_BIND, ""))
	n.isUnrecorded(server)
	must(t, unix.Unmount(subPath, 0))
}

func TestMetricsCountServerVolumesWithoutARecord(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	address := n.watched()
	server := n.unrecorded()
	counts := func(unrecorded float64) {
		t.Helper()
		eventually(t, "metrics count it", func() bool {
			now := n.scrape(address)
			return now[`volumes{state="unrecorded"}`] == unrecorded && now[`volumes{state="ok"}`] == 0
		})
	}
	counts(1)
	n.must("unmount", server)
	counts(0)
}
