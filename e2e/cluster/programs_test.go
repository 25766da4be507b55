//go:build cluster

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// A catalogued program is one of deploy/examples/programs.yaml.
type catalogued struct {
	name    string
	process string
	files   []string // of Debian's package, and of those that it needs
	options object   // a pod's
	writes  bool
}

const (
	s3Address, sftpPort = nodeIP + ":9000", "2022" // of servers on the node
	gcsPort             = "9001"
	csiNamespace        = "programs" // of the level restricted, which refuses FlexVolumes
	flexNamespace       = "programs-by-flexvolume"
)

var (
	catalogue = []catalogued{
		{"bindfs", "bindfs", []string{"/usr/bin/bindfs"}, object{"source": "empty", "perms": "a+rX"}, true},
		{"squashfuse", "squashfuse_ll", []string{"/usr/bin/squashfuse_ll"}, object{"source": "files", "file": "tree.squashfs"}, false},
		{"sshfs", "sshfs", []string{"/usr/bin/sshfs", "/usr/bin/ssh"}, object{"remote": "user@" + nodeIP + ":/", "port": sftpPort, "secret": "ssh"}, true},
		{"s3fs", "s3fs", []string{"/usr/bin/s3fs", "/usr/bin/fusermount", "/usr/bin/fusermount3"}, object{"bucket": "bucket", "url": "http://" + s3Address, "secret": "s3"}, true},
		{"rclone", "rclone", nil, object{"path": "/secret/..data", "secret": "rclone"}, false},
		{"gocryptfs", "gocryptfs", []string{"/usr/bin/gocryptfs"}, object{"source": "cipher", "secret": "gocryptfs"}, true},
		{"gcsfuse", "gcsfuse", nil, object{"bucket": "bucket"}, true},
	}
)

// programFlags are the values of a chart with the catalogue, and with a program to which pods may
// say what they like.
func programFlags() []string {
	flags := []string{"-f", "../../deploy/examples/programs.yaml"}
	for _, p := range catalogue {
		flags = append(flags, "--set", "podFuse.programs."+p.name+".image="+p.image().Name)
	}
	// As it is, but for Google's server and a ServiceAccount there.
	flags = append(flags, "--set-json", `podFuse.programs.gcsfuse.command=["gcsfuse","--foreground","--implicit-dirs",`+
		`"--anonymous-access","--enable-hns=false","--custom-endpoint","http://`+nodeIP+":"+gcsPort+`/storage/v1/","$(bucket)","{}"]`)
	return append(flags, "--set-json", `podFuse.programs.any={"image":"`+catalogue[1].image().Name+
		`","command":["squashfuse_ll","-f","/source/$(file)","{}"],"options":["file","value"],"source":{"mountPath":"/source","readOnly":true}}`)
}

// image is what deploy/examples/images makes, of this machine's files.
func (p catalogued) image() harness.Image {
	image := harness.Image{Name: "e2e.example.com/" + p.name + ":e2e", Files: p.files}
	switch p.name {
	case "sshfs":
		image.Users = "user:x:1000:0::/tmp:/bin/sh\n"
	case "rclone", "gcsfuse": // of the suites
		image.Programs = map[string]string{p.name: filepath.Join(bin, p.name)}
	}
	return image
}

// sources are a namespace's objects that programs need.
func sources(t *testing.T, dir, namespace string) []object {
	t.Helper()
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	secret := func(name string, data object) object {
		return in(namespace, object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": name}, "data": data})
	}
	// A persistent volume is there when programs start, and they may write to it.
	claim := newClaim("cipher-"+namespace, namespace, "", nil)
	spec := claim[0]["spec"].(object)
	delete(spec, "csi")
	spec["hostPath"] = object{"path": filepath.Join(dir, namespace)}
	return append(claim,
		secret("gocryptfs", object{"passphrase": []byte("passphrase\n")}),
		secret("s3", object{"AWS_ACCESS_KEY_ID": []byte("key"), "AWS_SECRET_ACCESS_KEY": []byte("secret")}),
		secret("ssh", object{"key": read("key"), "known_hosts": []byte("[" + nodeIP + "]:" + sftpPort + " " + string(read("host.pub")))}),
		secret("rclone", object{"rclone.conf": []byte("[remote]\ntype = local\n"), "file": []byte("content\n")}),
		in(namespace, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "files"},
			"binaryData": object{"tree.squashfs": read("tree.squashfs")}}),
	)
}

// startSources makes what the programs serve, and starts the servers of S3 and SFTP on the node.
func startSources(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	tree := filepath.Join(dir, "buckets/bucket")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "file"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"mksquashfs", tree, dir + "/tree.squashfs", "-quiet", "-no-progress"},
		{"sh", "-euc", `echo passphrase >passphrase; mkdir plain
			for namespace; do
				mkdir $namespace
				gocryptfs -init -q -scryptn 10 -passfile passphrase $namespace
				gocryptfs -q -passfile passphrase $namespace plain; cp buckets/bucket/file plain; fusermount -u plain
				chown -R 1000 $namespace # the pods' user
			done`, "sh", csiNamespace, flexNamespace},
		{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir + "/key"},
		{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir + "/host"},
	} {
		run := exec.Command(command[0], command[1:]...)
		run.Dir = dir
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s; e2e/podfuse/setup.sh installs what is missing", command, err, out)
		}
	}
	rclone := filepath.Join(bin, "rclone")
	for name, command := range map[string][]string{
		"rclone-s3":   {rclone, "serve", "s3", "--config", "", "--addr", s3Address, "--auth-key", "key,secret", ":local:" + dir + "/buckets"},
		"rclone-sftp": {rclone, "serve", "sftp", "--config", "", "--addr", nodeIP + ":" + sftpPort, "--authorized-keys", dir + "/key.pub", "--key", dir + "/host", ":local:" + tree},
		"gcs": {filepath.Join(bin, "fake-gcs-server"), "-backend", "memory", "-data", dir + "/buckets", "-scheme", "http",
			"-host", nodeIP, "-port", gcsPort, "-public-host", nodeIP + ":" + gcsPort, "-log-level", "error"},
	} {
		server, err := testCluster.StartProcess(name, command...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			server.Stop(syscall.SIGTERM, startLimit)
			if t.Failed() {
				testCluster.PrintLogs(name)
			}
		})
	}
	return dir
}

// asksFor is a pod of the level restricted, whose volume says what serves it.
func asksFor(name, program string, options object, command string) object {
	all := object{"program": program}
	maps.Copy(all, options)
	pod := restricted(newPod(name, object{"csi": object{"driver": podFuseCSIName, "volumeAttributes": all}}, "sh", "-c", command))
	spec := pod["spec"].(object)
	spec["volumes"] = append(spec["volumes"].([]any),
		object{"name": "empty", "emptyDir": object{}}, object{"name": "cipher", "persistentVolumeClaim": object{"claimName": "cipher-" + csiNamespace}},
		object{"name": "files", "configMap": object{"name": "files"}})
	return in(csiNamespace, pod)
}

// byFlexVolume has a pod ask at the other door.
func byFlexVolume(pod object) object {
	volume := pod["spec"].(object)["volumes"].([]any)[0].(object)
	volume["flexVolume"] = object{"driver": podFuseName, "options": volume["csi"].(object)["volumeAttributes"]}
	delete(volume, "csi")
	pod["spec"].(object)["volumes"].([]any)[2].(object)["persistentVolumeClaim"].(object)["claimName"] = "cipher-" + flexNamespace
	return in(flexNamespace, pod)
}

// uses is a command that uses the volume of a program.
func (p catalogued) uses() string {
	const file, made = infoDir + "/file", infoDir + "/made-$HOSTNAME"
	command := `[ "$(cat ` + file + `)" = content ]`
	if p.name == "bindfs" {
		command = "echo content > " + file + " && " + command
	}
	if p.writes {
		reads := "[ \"$(cat " + made + ")\" = more ]"
		if p.name == "sshfs" {
			// close(2) does not wait until sshfs has closed the file at its server (FUSE_RELEASE),
			// and rclone, the server, may not find it before.
			reads = "{ " + reads + " || { sleep 1; " + reads + "; }; }"
		}
		command += " && echo more > " + made + " && " + reads
	}
	return command
}

// deployment has the pod as its template.
func deployment(name string, pod object) object {
	labels := object{"app": name}
	return in(csiNamespace, object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": name}, "spec": object{
		"selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels}, "spec": pod["spec"]},
	}})
}

// deployed is the pod of a deployment that is rolled out.
func deployed(t *testing.T, name string) pod {
	t.Helper()
	if _, err := testCluster.kubectl("-n", csiNamespace, "rollout", "status", "deployment/"+name, "--timeout=4m"); err != nil {
		t.Fatalf("%v\n%s", err, podFuseIn(csiNamespace, "-l", "app="+name))
	}
	const running = `{range .items[?(@.status.phase=="Running")]}{.metadata.deletionTimestamp}|{.metadata.name}{"\n"}{end}`
	for line := range strings.Lines(kubectl(t, "-n", csiNamespace, "get", "pods", "-l", "app="+name, "-o", "jsonpath="+running)) {
		if deleted, name, _ := strings.Cut(strings.TrimSpace(line), "|"); deleted == "" {
			return pod{name, csiNamespace}
		}
	}
	t.Fatalf("the deployment %s has no pod", name)
	return pod{}
}

// podFuseIn tells of a namespace's pods and the second driver, for a test that failed. What tells
// most comes first, because only a part of it may be read. which are the arguments of kubectl logs
// that name the pods.
func podFuseIn(namespace string, which ...string) string {
	pods, _ := testCluster.kubectl("-n", namespace, "get", "pods", "-o", "wide")
	log, _ := testCluster.kubectl(append([]string{"-n", namespace, "logs", "--all-containers", "--prefix", "--tail=10"}, which...)...)
	events, _ := testCluster.kubectl("-n", namespace, "get", "events", "--sort-by=.lastTimestamp", "--no-headers")
	last := harness.Last(slices.Collect(strings.Lines(events)), 30)
	return pods + log + strings.Join(last, "") + installedPodFuse.Report()
}

// sidecars are policies, as others have, that put a container of the name before or after those
// that the pods of a deployment have.
func sidecars(deployment string) (objects []object) {
	for _, row := range []struct{ name, list, at string }{{"before", "initContainers", "0"}, {"after", "containers", "-"}} {
		container := `{"name": dyn("` + row.name + `"), "image": dyn("` + testImage + `"), "imagePullPolicy": dyn("Never"), ` +
			`"command": dyn(["sh", "-c", "trap exit TERM; sleep 100000 & wait"]), ` +
			`"securityContext": dyn({"allowPrivilegeEscalation": dyn(false), "capabilities": dyn({"drop": ["ALL"]})})`
		if row.list == "initContainers" {
			container += `, "restartPolicy": dyn("Always")`
		}
		list := "/spec/" + row.list
		objects = append(objects, object{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": object{"name": row.name},
			"spec": object{
				"reinvocationPolicy": "IfNeeded",
				"matchConstraints": object{"resourceRules": []any{object{
					"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "resources": []string{"pods"}, "operations": []string{"CREATE"}}}},
				"matchConditions": []any{
					object{"name": "deployment", "expression": `object.metadata.?labels[?"app"].orValue("") == "` + deployment + `"`},
					object{"name": "once", "expression": "!object.spec.?" + row.list + `.orValue([]).exists(c, c.name == "` + row.name + `")`}},
				"mutations": []any{object{"patchType": "JSONPatch", "jsonPatch": object{"expression": "(has(object.spec." + row.list + `) ? [] : [JSONPatch{op: "add", path: "` + list + `", value: []}]) + ` +
					`[JSONPatch{op: "add", path: "` + list + "/" + row.at + `", value: ` + container + `}}]`}}},
			},
		}, object{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": object{"name": row.name},
			"spec": object{"policyName": row.name},
		})
	}
	return objects
}

// The catalogue as it is: volumes that name a program, in pods that say no more, are served, and
// survive it; pods that end do so with their programs. What is wrong with others is said.
func testProgramsByName(t *testing.T) {
	for _, p := range catalogue {
		if err := testCluster.ImportImage(p.image()); err != nil {
			t.Fatal(err)
		}
	}
	dir := startSources(t)
	newNamespace(t, flexNamespace)
	label(t, flexNamespace, podSecurity, "baseline")
	label(t, flexNamespace, runsPrograms, "allowed")
	create(t, slices.Concat(sources(t, dir, csiNamespace), sources(t, dir, flexNamespace), sidecars("bindfs"))...)
	const names = "Programs: any, bindfs, gcsfuse, gocryptfs, rclone, s3fs, squashfuse, sshfs."
	for _, row := range []struct {
		program string
		options object
		denied  string
	}{
		{"other", nil, "Volume pod-info: there is no program other. " + names},
		{"squashfuse", object{"source": "files", "file": "x", "-o": "dev"}, "Volume pod-info: program squashfuse has no option -o. Options: file, wait, default_permissions, source."},
		{"squashfuse", object{"source": "files", "file": "x", "LD_PRELOAD": "/x"}, "Volume pod-info: program squashfuse has no option LD_PRELOAD. Options: file,"},
		{"sshfs", object{"remote": "user@host:/"}, "Volume pod-info: program sshfs needs option secret. Options: remote, port, wait, default_permissions, secret."},
		{"s3fs", object{"bucket": "bucket", "secret": ""}, "Volume pod-info: option secret is the name of a Secret in the pod's namespace."},
		{"sshfs", object{"remote": "-oProxyCommand=x", "secret": "ssh"}, "Volume pod-info: option remote becomes an argument, which may not begin with -"},
	} {
		// The API server may not have the policy at once.
		pod := asksFor("denied", row.program, row.options, "true")
		if err := harness.Eventually(startLimit, func() error { return admission(pod, row.denied) }); err != nil {
			t.Error(err)
		}
	}
	// Policies have no order. Each is invoked again when the pod has changed since, and all that is
	// in it is there once.
	bindfs := asksFor("beside", "bindfs", catalogue[0].options, "true")
	bindfs["metadata"].(object)["labels"] = object{"app": "bindfs"}
	err := harness.Eventually(startLimit, func() error {
		out, err := testCluster.kubectlWith(harness.JSON(bindfs), "create", "--dry-run=server", "-f", "-",
			"-o", "jsonpath={.spec.initContainers[*].name} {.spec.containers[*].name} {.spec.volumes[*].name}")
		names := slices.DeleteFunc(slices.Sorted(slices.Values(strings.Fields(out))), func(name string) bool { return strings.HasPrefix(name, "kube-api-access-") })
		if want := []string{"after", "before", "cipher", "empty", "files", "main", "pod-info", "pod-info-program", "pod-info-server"}; err == nil && !slices.Equal(names, want) {
			err = fmt.Errorf("with other sidecars, a pod has %q, want %q", names, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	comparesInjected(t)

	var objects []object
	for _, p := range catalogue {
		// Of the volume, a manifest has these lines: its name, csi, driver, volumeAttributes,
		// program, and one each.
		if lines := 5 + len(p.options); lines > 8 {
			t.Errorf("the volume of %s takes %d lines", p.name, lines)
		}
		reads := p.uses() + " && { " + asksOnAndOn(infoDir+"/file") + "; }"
		ends := byFlexVolume(asksFor(p.name, p.name, p.options, p.uses()))
		ends["spec"].(object)["restartPolicy"] = "Never"
		objects = append(objects, deployment(p.name, asksFor(p.name, p.name, p.options, reads)),
			in(flexNamespace, object{"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": p.name},
				"spec": object{"backoffLimit": 0, "template": object{"spec": ends["spec"]}}}))
	}
	create(t, objects...)
	waits := asksFor("waits", "s3fs", object{"bucket": "bucket", "secret": "absent"}, "true")
	p := podOf(waits)
	for range 2 { // a bare pod, applied again
		if _, err := testCluster.kubectlWith(harness.JSON(waits), "apply", "-f", "-"); err != nil {
			t.Error(err)
		}
	}
	// A test that fails deletes the pod, too: the driver stays while the pod is there.
	t.Cleanup(func() { kubectl(t, "-n", p.namespace, "delete", "pod", p.name, "--timeout=4m") })
	t.Run("Killed", func(t *testing.T) {
		for _, p := range catalogue {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				reader := deployed(t, p.name)
				reader.goesOn(t)
				reader.execIn(t, "pod-info-program", "sh", "-c", `for p in /proc/[0-9]*; do [ "$(cat "$p/comm")" != `+p.process+` ] || { kill -9 "${p#/proc/}" && exit; }; done; exit 1`)
				reader.goesOn(t)
				// What the kernel had in its cache, the reader has read without a program.
				if got := reader.execIn(t, "main", "cat", infoDir+"/file"); got != "content\n" {
					t.Errorf("when the program was killed, the file is %q", got)
				}
			})
		}
	})
	kubectl(t, "-n", csiNamespace, "rollout", "restart", "deployment")
	for _, p := range catalogue {
		deployed(t, p.name).goesOn(t)
	}
	if _, err := testCluster.kubectl("-n", flexNamespace, "wait", "--for=condition=complete", "job", "--all", "--timeout=4m"); err != nil {
		t.Errorf("%v\n%s", err, podFuseIn(flexNamespace, "-l", "batch.kubernetes.io/job-name"))
	}
	err = harness.Eventually(startLimit, func() error {
		if told := p.field(t, ".status.initContainerStatuses[0].state.waiting.message"); !strings.Contains(told, `secret "absent" not found`) {
			return fmt.Errorf("of a Secret that is missing, the pod says %q", told)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	t.Run("Values", testValuesOfPrograms)
}

// Whatever a pod writes is one argument and one variable of its program, and nothing else.
func testValuesOfPrograms(t *testing.T) {
	const file = "it's \"a\"\n-o allow_other; $(mountpoint) $HOME `id` $$ *.squashfs"
	value := strings.Repeat("$(PATH)'\"\n,-o dev", 4<<10)[:64<<10]
	pod := asksFor("values", "any", object{"source": "files", "file": file, "value": value}, "trap exit TERM; cat "+infoDir+"/file; sleep 100000 & wait")
	volumes := pod["spec"].(object)["volumes"].([]any)
	volumes[len(volumes)-1].(object)["configMap"].(object)["items"] = []any{object{"key": "tree.squashfs", "path": file}}
	p := runPod(t, pod)
	read := func(name string) []string {
		return strings.Split(p.execIn(t, "pod-info-program", "sh", "-c", "cat /proc/$(busybox pidof squashfuse_ll)/"+name), "\x00")
	}
	if got := read("cmdline"); len(got) != 5 || !slices.Equal(got[:3], []string{"squashfuse_ll", "-f", "/source/" + file}) || !strings.HasPrefix(got[3], "/dev/fd/") {
		t.Errorf("the command line is %q", got)
	}
	environment := read("environ")
	for _, want := range []string{"file=" + file, "value=" + value} {
		if !slices.Contains(environment, want) {
			t.Errorf("no %.80q in the environment %.2000q", want, environment)
		}
	}
}

// comparesInjected checks that the API server makes the same of pods as of what pod-fuse inject
// prints of them, field by field.
func comparesInjected(t *testing.T) {
	t.Helper()
	var pods []object
	for _, p := range catalogue {
		pods = append(pods, asksFor(p.name, p.name, p.options, "true"), byFlexVolume(asksFor(p.name, p.name, p.options, "true")))
	}
	manifest := filepath.Join(t.TempDir(), "pods.json")
	if err := os.WriteFile(manifest, list(pods), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := testCluster.command(t.Context(), "../../bin/helm", "get", "values", "pod-info-fuse", "--namespace", namespace, "-o", "yaml").Output()
	if err != nil {
		t.Fatal(err)
	}
	inject := exec.Command("../../bin/pod-fuse", "inject", "--programs", "-", "-f", manifest)
	inject.Stdin = bytes.NewReader(values)
	injected, err := inject.Output()
	if got := bytes.Count(injected, []byte("pod-info-program")); err != nil || got != len(pods) {
		t.Fatalf("pod-fuse inject adds %d programs: %v: %s", got, err, injected)
	}
	stored := func(manifest []byte) (all []string) {
		out, err := testCluster.kubectlWith(manifest, "create", "--dry-run=server", "-o", "json", "-f", "-")
		if err != nil {
			t.Fatal(err)
		}
		for decoder := json.NewDecoder(strings.NewReader(regexp.MustCompile("kube-api-access-[a-z0-9]+").ReplaceAllString(out, "token"))); ; {
			var pod object
			if err := decoder.Decode(&pod); errors.Is(err, io.EOF) {
				return all
			} else if err != nil {
				t.Fatal(err)
			}
			metadata := pod["metadata"].(object)
			delete(metadata, "uid")
			delete(metadata, "creationTimestamp")
			// The API server puts the volume with the token before what the policy adds.
			slices.SortFunc(pod["spec"].(object)["volumes"].([]any), func(a, b any) int {
				return strings.Compare(a.(object)["name"].(string), b.(object)["name"].(string))
			})
			all = append(all, string(harness.JSON(pod)))
		}
	}
	byPolicy, byCommand := stored(list(pods)), stored(injected)
	if len(byPolicy) != len(pods) || len(byCommand) != len(pods) {
		t.Fatalf("of %d pods, the API server makes %d, and %d of what pod-fuse inject prints", len(pods), len(byPolicy), len(byCommand))
	}
	for i, want := range byPolicy {
		if byCommand[i] != want {
			t.Errorf("of what pod-fuse inject prints, the API server makes\n%s\nand of the pod itself\n%s", byCommand[i], want)
		}
	}
}
