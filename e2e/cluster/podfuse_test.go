//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

const (
	podFuseName = "example.com/pod-fuse"
	// runsPrograms is the label of the namespaces that the policy lets use it.
	runsPrograms = "pod-fuse.example.com/volumes"
	// Where containers have its volumes, and what the program shows.
	dataDir   = "/mnt/data"
	launchDir = "/run/pod-fuse"
	shownDir  = "/mnt/shown"
)

var installedPodFuse = &harness.Driver{Name: podFuseName, Dir: pluginDir + "/" + harness.Escaped(podFuseName)}

// The second driver, from its installation by the chart, with both doors and beside the first
// driver, to its removal, which leaves the first. While it has volumes, it stays, with the plugin
// that unmounts them.
func TestPodFuse(t *testing.T) {
	before := settledNode(t)
	helm(t, append([]string{"install", "pod-info-fuse", chart, "--create-namespace",
		"--set", "image.tag=" + versionOf(t, "../../bin/pod-info-fuse"),
		"--set", "podFuse.enabled=true,podFuse.csi.enabled=true,policies.validatingAdmissionPolicy=true,config.log=off",
	}, programFlags()...)...)
	t.Cleanup(func() {
		helm(t, "uninstall", "pod-info-fuse", "--wait", "--timeout=4m")
		checkUninstalled(t, before)
		checkNoCSIDriver(t, podFuseCSIName)
	})
	rolledOut(t)
	newNamespace(t, csiNamespace)
	label(t, csiNamespace, podSecurity, "restricted")
	t.Run("Policy", testPolicyOfPodFuse)

	label(t, "default", runsPrograms, "allowed")
	label(t, csiNamespace, runsPrograms, "allowed")
	pods := runPods(t, newPodFuse("pod-fuse", byLauncher()), in(csiNamespace, restricted(podFuseByCSI("csi"))))
	p, byCSI := pods[0], pods[1]
	t.Run("Pods", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"FlexVolume": func(t *testing.T) {
				t.Run("ReaderComesFirst", func(t *testing.T) { testReaderComesFirst(t, p) })
				t.Run("Nested", func(t *testing.T) { testNested(t, p) })
				t.Run("EphemeralContainers", func(t *testing.T) { testEphemeralContainers(t, p) })
			},
			"UserNamespace": testUserNamespace,
			"CSI":           func(t *testing.T) { testPodFuseByCSI(t, byCSI) },
			"Claim":         testPodFuseByClaim,
			"Programs":      testProgramsByName,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("Metrics", testMetricsOfPodFuse)
	t.Run("Upgrade", func(t *testing.T) { testUpgradeOfPodFuse(t, p) })

	helm(t, "upgrade", "pod-info-fuse", chart, "--reuse-values", "--set", "podFuse.enabled=false,podFuse.uninstall=true")
	for _, p := range pods {
		isInUse(t, p, "pod-fuse")
	}
	p.goesOn(t)
	byCSI.readsProgram(t, "while the driver is to be removed")
	for _, p := range pods {
		kubectl(t, "-n", p.namespace, "delete", "pod", p.name, "--timeout=4m")
	}
	rolledOut(t)
	err := harness.Eventually(startLimit, func() error {
		for _, dir := range []string{installedPodFuse.Dir, installedPodFuse.RunDir()} {
			if _, err := os.Lstat(dir); !os.IsNotExist(err) {
				return fmt.Errorf("pod-fuse was uninstalled, and %s is there: %v", dir, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	first := runPod(t, newPod("beside", flexVolume(driverName), stays...))
	first.checkFiles(t, infoDir)
	kubectl(t, "delete", "pod", first.name, "--timeout=4m")
	helm(t, "upgrade", "pod-info-fuse", chart, "--reuse-values", "--set", "uninstall=true")
	rolledOut(t)
}

// What docs/pod-fuse.md says to do first: the reader goes on when the program was killed.
func testDemo(t *testing.T) {
	commands := documented(t, "docs/pod-fuse.md", "A first success")
	last := len(commands) - 1
	// kubectl logs -f goes on for ever.
	runDocumented(t, slices.DeleteFunc(commands[:last:last], func(c string) bool { return strings.Contains(c, " logs -f ") })...)
	p := pod{"pod-fuse-demo", "default"}
	process := func() string {
		log := p.execIn(t, "reader", "cat", "/data/log")
		fields := strings.Fields(log[:strings.Index(log, "\n")])
		return fields[len(fields)-1]
	}
	was := process()
	runDocumented(t, commands[last])
	err := harness.Eventually(startLimit, func() error {
		if now := process(); now == was {
			return fmt.Errorf("the process %s was killed, and its log is read", was)
		}
		log, err := p.kubectl("logs", p.name, "--tail=1")
		if at, parseErr := time.Parse(time.RFC3339, strings.TrimSpace(log)); err == nil && (parseErr != nil || time.Since(at) > time.Minute) {
			err = fmt.Errorf("the reader has printed %q", log)
		}
		return err
	})
	if err == nil {
		err = p.neverEnded("reader")
	}
	if err != nil {
		t.Error(err)
	}
	kubectl(t, "delete", "pod", p.name, "--timeout=4m")
}

// newProgram is a container that serves the volume data. The content is there before the program
// is, and stays.
func newProgram(command string, mounts ...any) object {
	return object{
		"name": "program", "image": testImage, "imagePullPolicy": "Never",
		"command":      []string{"sh", "-c", "echo content > " + shownDir + "/file && exec " + command},
		"volumeMounts": append(mounts, object{"name": "shown", "mountPath": shownDir}),
	}
}

// byLauncher has the driver's launcher run the program.
func byLauncher() object {
	return newProgram(launchDir+"/pod-fuse run --restart -- loopback "+shownDir+" '{}'",
		object{"name": "data-server", "mountPath": launchDir})
}

// byFusermount has the program call fusermount.
func byFusermount() object {
	return newProgram(launchDir+"/pod-fuse run --restart -- loopback "+shownDir+" "+launchDir+"/mnt",
		object{"name": "data-server", "mountPath": launchDir},
		object{"name": "data-server", "mountPath": "/dev/fuse", "subPath": "fuse"},
		object{"name": "data-server", "mountPath": "/bin/fusermount3", "subPath": "fusermount3"})
}

// asksOnAndOn is a command that asks for a file by its path, until an error. A reader meets EIO once
// in some hundred deaths of a program in Go (pod-fuse.md): the command goes on after one.
func asksOnAndOn(file string) string {
	return "rare=0; while out=$(stat -c %s " + file + " 2>&1) || { [ \"${out##*: }\" = 'Input/output error' ] && [ $((rare += 1)) = 1 ]; }; " +
		"do echo $out; sleep 0.02; done; echo \"$out\"; exit 1"
}

// newPodFuse is a pod whose container program serves a volume, and whose container main reads it
// by path, again and again, until an error. The reader starts first.
func newPodFuse(name string, program object) object {
	p := newPod(name, object{"flexVolume": object{"driver": podFuseName, "options": object{"wait": "2m"}}}, "sh", "-c",
		"cat "+dataDir+"/file; "+asksOnAndOn(dataDir+"/file"))
	spec := p["spec"].(object)
	main := spec["containers"].([]any)[0].(object)
	main["volumeMounts"] = []any{
		object{"name": "data", "mountPath": dataDir},
		// Others below it, and it below another.
		object{"name": "empty", "mountPath": dataDir + "/empty"},
		object{"name": "config", "mountPath": dataDir + "/config"},
		object{"name": "empty", "mountPath": "/mnt/outer"},
		object{"name": "data", "mountPath": "/mnt/outer/data"},
	}
	spec["containers"] = []any{main, program}
	data := spec["volumes"].([]any)[0].(object)
	data["name"] = "data"
	spec["volumes"] = []any{
		data,
		object{"name": "data-server", "flexVolume": object{"driver": podFuseName, "options": object{"serves": "data"}}},
		object{"name": "shown", "emptyDir": object{}},
		object{"name": "empty", "emptyDir": object{}},
		object{"name": "config", "configMap": object{"name": "kube-root-ca.crt"}},
	}
	return p
}

// execIn runs a command in a container of the pod.
func (p pod) execIn(t *testing.T, container string, command ...string) string {
	t.Helper()
	out, err := p.kubectl(append([]string{"exec", p.name, "-c", container, "--"}, command...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// goesOn waits until the reader has read once more, and checks that it has met no error.
func (p pod) goesOn(t *testing.T) {
	t.Helper()
	since := time.Now()
	err := harness.Eventually(startLimit, func() error {
		last, err := p.kubectl("logs", p.name, "-c", "main", "--tail=1", "--timestamps")
		if err != nil {
			return err
		}
		at, size, _ := strings.Cut(strings.TrimSpace(last), " ")
		if when, err := time.Parse(time.RFC3339, at); err != nil || !when.After(since) || size != "8" {
			return fmt.Errorf("since %v it has not read; the last was %q (%v)", since.UTC(), last, err)
		}
		return nil
	})
	if err == nil {
		err = p.neverEnded("main")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, podFuseIn(p.namespace, p.name))
	}
}

// neverEnded tells with an error that a container has.
func (p pod) neverEnded(container string) error {
	restarts, err := p.kubectl("get", "pod", p.name, "-o", "jsonpath={.status.containerStatuses[?(@.name=='"+container+"')].restartCount}")
	if err == nil && restarts != "0" {
		log, _ := p.kubectl("logs", p.name, "-c", container, "--previous", "--tail=5")
		err = fmt.Errorf("the container %s of the pod %s was restarted %s times; the end of its log: %s", container, p.name, restarts, log)
	}
	return err
}

// killProgram kills the pod's program, and waits for the next one.
func (p pod) killProgram(t *testing.T) {
	t.Helper()
	was := p.execIn(t, "program", "busybox", "pidof", "loopback")
	p.execIn(t, "program", "busybox", "kill", "-9", strings.TrimSpace(was))
	err := harness.Eventually(startLimit, func() error {
		if now, err := p.kubectl("exec", p.name, "-c", "program", "--", "busybox", "pidof", "loopback"); err != nil || now == was {
			return fmt.Errorf("the program %q was killed, and it is %q: %v", was, now, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The reader has waited for the program.
func testReaderComesFirst(t *testing.T, p pod) {
	p.goesOn(t)
	if log, err := p.kubectl("logs", p.name, "-c", "main", "--limit-bytes=8"); err != nil || log != "content\n" {
		t.Errorf("the reader has printed %q first (%v)", log, err)
	}
}

// Volumes that are mounted below one another are all there, also when the program was killed.
func testNested(t *testing.T, p pod) {
	p.execIn(t, "main", "touch", dataDir+"/empty/made")
	for _, when := range []string{"", ", after the program was killed"} {
		if when != "" {
			p.killProgram(t)
			p.goesOn(t)
		}
		for dir, want := range map[string]string{
			dataDir:             "config\nempty\nfile\n",
			dataDir + "/empty":  "data\nmade\n",
			dataDir + "/config": "ca.crt\n",
			"/mnt/outer":        "data\nmade\n",
			"/mnt/outer/data":   "config\nempty\nfile\n",
		} {
			if got := p.execIn(t, "main", "ls", dir); got != want {
				t.Errorf("in %s%s is %q, want %q", dir, when, got, want)
			}
		}
	}
}

// A container that is added while the pod runs reads, before and after the program was killed.
func testEphemeralContainers(t *testing.T, p pod) {
	custom := filepath.Join(t.TempDir(), "custom.json")
	if err := os.WriteFile(custom, harness.JSON(object{"volumeMounts": []any{object{"name": "data", "mountPath": dataDir}}}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"debug-before", "debug-after"} {
		args := []string{"debug", p.name, "-c", name, "--image=" + testImage, "--image-pull-policy=Never",
			"--profile=general", "--custom=" + custom, "--quiet", "--"}
		if _, err := p.kubectl(append(args, stays...)...); err != nil {
			t.Fatal(err)
		}
		err := harness.Eventually(startLimit, func() error {
			out, err := p.kubectl("exec", p.name, "-c", name, "--", "cat", dataDir+"/file")
			if err == nil && out != "content\n" {
				err = fmt.Errorf("%s reads %q", name, out)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		p.killProgram(t)
		for _, container := range []string{"debug-before", name} {
			if out := p.execIn(t, container, "cat", dataDir+"/file"); out != "content\n" {
				t.Errorf("when the program was killed, %s reads %q", container, out)
			}
		}
	}
	p.goesOn(t)
}

// A pod whose users are none of the node's reads what its program serves, and goes on when that was
// killed.
func testUserNamespace(t *testing.T) {
	program := byFusermount()
	// runc finds the flag of the file system locked for such a pod, and cannot clear it.
	for _, mount := range program["volumeMounts"].([]any) {
		if mount := mount.(object); mount["name"] == "data-server" {
			mount["readOnly"] = true
		}
	}
	definition := newPodFuse("users", program)
	definition["spec"].(object)["hostUsers"] = false
	p := runPod(t, definition)
	p.goesOn(t)
	if users := p.execIn(t, "main", "cat", "/proc/self/uid_map"); strings.Fields(users)[1] == "0" {
		t.Fatalf("the pod's users are the node's: %s", users)
	}
	p.execIn(t, "main", "sh", "-c", "echo more > "+dataDir+"/made")
	if out := p.execIn(t, "program", "cat", shownDir+"/made"); out != "more\n" {
		t.Errorf("what the reader wrote is %q", out)
	}
	// Numbers of users are the node's, of whom the pod knows none.
	if owner := p.execIn(t, "main", "stat", "-c", "%u", dataDir+"/file"); owner != "65534\n" {
		t.Errorf("the file of the program's root belongs to %q", owner)
	}
	p.killProgram(t)
	p.goesOn(t)
}

// Volumes that work are not dead where the installer sees them either: an alert that wakes people
// says how many are.
func testMetricsOfPodFuse(t *testing.T) {
	err := harness.Eventually(startLimit, func() error {
		if m := scrape(t, podFusePort); m[`fuse_driver_volumes{driver="pod-fuse",state="ok"}`] < 2 {
			return fmt.Errorf("a pod has two volumes, and the metrics have %v", m)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for port, driver := range map[string]string{firstPort: "pod-info-fuse", podFusePort: "pod-fuse"} {
		dead, there := scrape(t, port)[`fuse_driver_volumes{driver="`+driver+`",state="dead"}`]
		if !there || dead != 0 {
			t.Errorf("%s says that %v volumes are dead (%v)", driver, dead, there)
		}
	}
}

// The policy lets pods have the driver, in namespaces with the label, and no other driver.
func testPolicyOfPodFuse(t *testing.T) {
	newNamespace(t, "elsewhere")
	label(t, "default", runsPrograms, "allowed")
	for _, test := range []struct {
		name   string
		object object
		denied string // what the message has in it; empty: admitted
	}{
		{"in a namespace without the label", in("elsewhere", newPod("policy", flexVolume(podFuseName), stays...)), "may not be used in this namespace"},
		{"by CSI", in(csiNamespace, restricted(podFuseByCSI("policy"))), "may not be used in this namespace"},
		{"the first driver, there", in("elsewhere", newPod("policy", flexVolume(driverName), stays...)), ""},
		{"in a namespace with it", newPod("policy", flexVolume(podFuseName), stays...), ""},
		{"another driver, there", newPod("policy", flexVolume("other.example.com/driver"), stays...), "FlexVolume drivers that may be used here: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The API server may not have the policy at once.
			err := harness.Eventually(startLimit, func() error { return admission(test.object, test.denied) })
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Another version takes over under a reader, who meets no error, and from then on serves.
func testUpgradeOfPodFuse(t *testing.T, p pod) {
	was, err := installedPodFuse.Pair()
	if err != nil {
		t.Fatal(err)
	}
	version := versionOf(t, nextBinary)
	helm(t, "upgrade", "pod-info-fuse", chart, "--reuse-values", "--set", "image.tag="+version)
	rolledOut(t)
	// The kubelet looks at the driver again for this pod's volumes, and calls init.
	next := runPod(t, newPodFuse("after-upgrade", byLauncher()))
	next.goesOn(t)
	err = harness.Eventually(startLimit, func() error {
		status, err := installedPodFuse.Status()
		if now := status.Daemon; err == nil && (now.Active.Version != version || now.Standby.Version != version) {
			err = fmt.Errorf("version %s was rolled out, and the daemon is %+v", version, now)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := installedPodFuse.Pair(was.Active, was.Standby); err != nil {
		t.Errorf("the daemon was %+v, now it is %+v: %v", was, now, err)
	}
	p.goesOn(t)
	p.killProgram(t)
	p.goesOn(t)
}
