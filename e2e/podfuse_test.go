//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/internal/harness"
	"example.com/pod-info-fuse/e2e/stopwatch"
)

// Where the containers have the volumes of pod-fuse, and what the program shows.
const (
	dataDir       = "/mnt/data"
	subDir        = "/mnt/sub"        // of the volume, by subPath
	expressionDir = "/mnt/expression" // the same, by subPathExpr
	launchDir     = "/run/pod-fuse"
	shownDir      = "/mnt/shown"
)

// ways are how the program gets its mount, and the mount point that newProgram wants for that.
var ways = map[string]string{"fusermount": "/mnt/own", "descriptor": ""}

// newPodFuse is a pod with a volume that the container program serves, and one that the container
// main reads. The containers start in this order: the reader first.
func newPodFuse(name string) *manifest {
	m := newManifest(name)
	main := m.main()
	main.VolumeMounts = []volumeMount{{Name: "data", MountPath: dataDir}}
	m.Spec.Containers = append(m.Spec.Containers, newProgram("/mnt/own"))
	m.Spec.Volumes = []*volume{
		{Name: "data", FlexVolume: &flexVolume{Driver: podFuseName, Options: map[string]string{"wait": "2m"}}},
		{Name: "data-server", FlexVolume: &flexVolume{Driver: podFuseName, Options: map[string]string{"serves": "data"}}},
		{Name: "shown", EmptyDir: &struct{}{}},
		{Name: "own", EmptyDir: &struct{}{}},
	}
	return m
}

// newProgram is a container that serves the volume data: loopback by itself, which calls
// fusermount, with a mount point; by the launcher, with none.
func newProgram(mountPoint string) *container {
	loopback := "loopback " + shownDir + " " + mountPoint
	if mountPoint == "" {
		loopback = launchDir + "/pod-fuse run --restart -- loopback " + shownDir + " '{}'"
	}
	c := &container{
		Name: "program", Image: image, ImagePullPolicy: "Never",
		// The content is there before the program is, and stays.
		Command: []string{"sh", "-c", "mkdir -p " + shownDir + "/sub && echo content > " + shownDir + "/file && echo below > " + shownDir + "/sub/file && exec " + loopback},
		VolumeMounts: []volumeMount{
			{Name: "shown", MountPath: shownDir},
			{Name: "data-server", MountPath: launchDir},
		},
	}
	if mountPoint != "" {
		c.VolumeMounts = append(c.VolumeMounts,
			volumeMount{Name: "own", MountPath: mountPoint},
			volumeMount{Name: "data-server", MountPath: "/dev/fuse", SubPath: "fuse"},
			volumeMount{Name: "data-server", MountPath: "/bin/fusermount3", SubPath: "fusermount3"})
	}
	return c
}

// addSubPaths gives main a directory of the volume data twice, by subPath and by subPathExpr.
func (m *manifest) addSubPaths() {
	m.main().Env = []envVar{{Name: "PART", Value: "sub"}}
	m.main().VolumeMounts = append(m.main().VolumeMounts,
		volumeMount{Name: "data", MountPath: subDir, SubPath: "sub"},
		volumeMount{Name: "data", MountPath: expressionDir, SubPathExpr: "$(PART)"})
}

// readsFirst makes main read by all its mounts of the volume data, before it does anything else.
// All read at the same time: none has the volume served by what another has waited for.
func (m *manifest) readsFirst() {
	m.addSubPaths()
	m.main().Command = []string{"sh", "-c", "for dir in " + strings.Join([]string{dataDir, subDir, expressionDir}, " ") +
		"; do cat $dir/file & done; trap exit TERM; sleep 100000 & wait"}
}

// hasReadFirst waits until main, restarted so many times, has read what readsFirst makes it read.
func (p *testPod) hasReadFirst(t *testing.T, restarts int) {
	t.Helper()
	var read []string
	err := harness.Eventually(startLimit, func() error {
		read = nil
		for _, line := range p.containerLogs(t, "main", strconv.Itoa(restarts)) {
			_, text, _ := strings.Cut(line, " F ") // after the time and the stream; an error is a line, too
			read = append(read, text)
		}
		if len(read) < 3 {
			return fmt.Errorf("main, restarted %d times, has read %q", restarts, read)
		}
		return nil
	})
	slices.Sort(read)
	if want := []string{"below\n", "below\n", "content\n"}; err == nil && !slices.Equal(read, want) {
		err = fmt.Errorf("main, restarted %d times, has read %q, want %q", restarts, read, want)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// waiting waits until so many requests wait for the pod's first program, as the driver says.
func (p *testPod) waiting(t *testing.T, want int) {
	t.Helper()
	is := harness.Program{Pod: "default/" + p.Metadata.Name + "-" + nodeName, State: "waiting", Waiting: want}
	err := harness.Eventually(execLimit, func() error {
		status, err := testNode.driver(podFuseName).Status()
		if err == nil && !slices.Contains(status.Programs, is) {
			err = fmt.Errorf("the driver says %+v, want %+v", status.Programs, is)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// program is the PID, on the host, of the pod's FUSE program.
func (p *testPod) program(t *testing.T) int {
	t.Helper()
	var pid int
	err := harness.Eventually(startLimit, func() error {
		first, err := p.findInit("program") // the kubelet may be about to start it again
		if err != nil {
			return err
		}
		namespace, err := os.Readlink(fmt.Sprintf("/proc/%s/ns/pid", first))
		if err != nil {
			return err
		}
		all, _ := filepath.Glob("/proc/[0-9]*/comm")
		for _, path := range all {
			name, _ := os.ReadFile(path)
			in, _ := os.Readlink(filepath.Join(filepath.Dir(path), "ns/pid"))
			if strings.TrimSpace(string(name)) == "loopback" && in == namespace {
				pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
				return nil
			}
		}
		return fmt.Errorf("no program runs in %s", namespace)
	})
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// killProgram kills it, and returns when it has ended: until then, it may answer.
func (p *testPod) killProgram(t *testing.T) {
	t.Helper()
	mustKill(t, p.program(t))
}

// mustKill does so with any process of a pod.
func mustKill(t *testing.T, pid int) {
	t.Helper()
	if err := harness.Kill(pid); err != nil {
		t.Fatal(err)
	}
}

// first is the PID, on the host, of a container's first process, with which the container ends.
func (p *testPod) first(t *testing.T, container string) int {
	t.Helper()
	pid, err := strconv.Atoi(p.init(t, container))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A reader that is there before the program waits, and then reads, also by sub-paths: the kubelet
// has made and bound them while nobody served. The program has neither privilege nor a device.
func TestPodFuseReaderComesFirst(t *testing.T) {
	t.Parallel()
	for name, mountPoint := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newPodFuse("first-" + name)
			m.readsFirst()
			program := newProgram(mountPoint)
			program.Command[2] = "until test -e " + shownDir + "/serve; do sleep 1; done; " + program.Command[2]
			m.Spec.Containers[1] = program
			p := runPod(t, m)
			p.waiting(t, 3)
			p.mustExec(t, "program", "touch", shownDir+"/serve")
			p.hasReadFirst(t, 0)
			p.mustExec(t, "main", "touch", dataDir+"/made", subDir+"/made", expressionDir+"/made-too")
			for dir, want := range map[string]string{
				shownDir:          "file\nmade\nserve\nsub\n",
				shownDir + "/sub": "file\nmade\nmade-too\n",
			} {
				if out := p.mustExec(t, "program", "ls", dir); out != want {
					t.Errorf("what the reader made is shown in %s as %q", dir, out)
				}
			}
		})
	}
}

// The reader's container ends, and the kubelet starts another one, for which it binds the stand-in
// and its sub-paths again: that reads, too, and meets no error. The program may be killed with the
// reader, and be started again by the launcher before that is there, or by the kubelet after it.
func TestPodFuseReaderIsRestarted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mountPoint string
		killed     bool
	}{
		"served":                 {ways["descriptor"], false},
		"with-program":           {ways["descriptor"], true},
		"with-program-container": {ways["fusermount"], true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A pod of its own: the kubelet delays the second restart of a container by ten
			// seconds, and a program that is killed with it would be long back.
			m := newPodFuse("restarted-" + name)
			m.readsFirst()
			m.Spec.Containers[1] = newProgram(test.mountPoint)
			p := runPod(t, m)
			p.hasReadFirst(t, 0)
			reader, program := p.first(t, "main"), p.program(t)
			mustKill(t, reader)
			if test.killed {
				mustKill(t, program)
			}
			p.hasReadFirst(t, 1)
			if now := p.program(t); (now != program) != test.killed {
				t.Errorf("the program was %d, and is %d", program, now)
			}
		})
	}
}

// A sidecar with a startup probe: what follows starts when the volume is served, an init container,
// and one with sub-paths and a read-only mount. And nobody has any privilege. A sub-path that is a
// file cannot be had then, either: the kubelet never sees anything but directories.
func TestPodFuseOfASidecar(t *testing.T) {
	t.Parallel()
	m := newPodFuse("sidecar")
	sidecar := newProgram("")
	sidecar.RestartPolicy = "Always"
	sidecar.StartupProbe = &probe{PeriodSeconds: 1, TimeoutSeconds: 10, FailureThreshold: 12}
	sidecar.StartupProbe.Exec.Command = []string{launchDir + "/pod-fuse", "ready"}
	before := newContainer("before")
	before.Command = []string{"cat", dataDir + "/file"}
	before.VolumeMounts = []volumeMount{{Name: "data", MountPath: dataDir}}
	m.Spec.InitContainers = []*container{sidecar, before}
	file := newContainer("file")
	file.VolumeMounts = []volumeMount{{Name: "data", MountPath: "/mnt/file", SubPath: "file"}}
	m.Spec.Containers = []*container{m.main(), file}
	m.Spec.SecurityContext = &podSecurity{FSGroup: 2000}
	m.Spec.ShareProcessNamespace = true
	m.addSubPaths()
	m.main().VolumeMounts = append(m.main().VolumeMounts, volumeMount{Name: "data", MountPath: "/mnt/read-only", ReadOnly: true})
	no := false
	for _, c := range []*container{sidecar, before, m.main()} {
		c.SecurityContext = &containerSecurity{
			RunAsUser: 1000, RunAsNonRoot: true, ReadOnlyRootFilesystem: true, AllowPrivilegeEscalation: &no,
			Capabilities: &capabilities{Drop: []string{"ALL"}}, SeccompProfile: &seccompProfile{Type: "RuntimeDefault"},
		}
	}
	p := runPod(t, m)
	for path, want := range map[string]string{
		dataDir + "/file":       "content\n",
		dataDir + "/sub/file":   "below\n",
		subDir + "/file":        "below\n",
		expressionDir + "/file": "below\n",
		"/mnt/read-only/file":   "content\n",
	} {
		if out := p.mustExec(t, "main", "cat", path); out != want {
			t.Errorf("%s has %q, want %q", path, out, want)
		}
	}
	if out, err := p.exec(t, "main", "touch", "/mnt/read-only/new"); err == nil || !strings.Contains(out, "Read-only file system") {
		t.Errorf("touch in a read-only mount: %v: %s", err, out)
	}
	if out, err := p.exec(t, "file", "cat", "/mnt/file"); err == nil || !strings.Contains(out, "Transport endpoint is not connected") {
		t.Errorf("cat of a sub-path that is a file: %v: %s", err, out)
	}
	if log := strings.Join(p.containerLog(t, "before"), ""); !strings.HasSuffix(log, " content\n") {
		t.Errorf("the init container has printed %q", log)
	}
}

// The program is killed again and again, by itself and with its container, while the driver's
// processes are: who reads does not notice.
func TestPodFuseSurvivesItsProgram(t *testing.T) {
	m := newPodFuse("killed")
	m.Spec.Containers = []*container{
		// By path: a file that is open when its program dies is stale.
		{Name: "main", Image: image, ImagePullPolicy: "Never", Command: []string{"sh", "-c", "while out=$(stat -c %s " + dataDir + "/file 2>&1) || [ \"${out##*: }\" = '" + rareError + "' ]; do echo \"$out\"; done; echo \"$out\""},
			VolumeMounts: []volumeMount{{Name: "data", MountPath: dataDir}}},
		newProgram(""),
	}
	p := runPod(t, m)
	p.goesOn(t, "main")
	reader := p.mustContainer(t, "main")
	for range 2 {
		p.killProgram(t)
		p.goesOn(t, "main")
	}
	for range 2 {
		was := testNode.driver(podFuseName).pair(t)
		kill(t, was.Active)
		p.killProgram(t)
		testNode.driver(podFuseName).pair(t, was.Active)
		p.goesOn(t, "main")
	}
	// The launcher too, so that the kubelet starts another container.
	mustKill(t, p.first(t, "program"))
	p.goesOn(t, "main")
	if now := p.mustContainer(t, "main"); now != reader {
		t.Errorf("the reader was %s and is %s: it has met an error", reader, now)
	}
	rare := 0
	for _, line := range p.containerLog(t, "main") {
		if strings.HasSuffix(line, rareError+"\n") {
			rare++
		} else if !strings.HasSuffix(line, " 8\n") {
			t.Errorf("the reader printed %q", line)
		}
	}
	if rare > 1 {
		t.Errorf("the reader has met %q %d times", rareError, rare)
	}
}

// rareError is what a reader meets once in some hundred deaths of a program in Go (pod-fuse.md).
const rareError = "Input/output error"

// A program that is stopped makes its readers wait, and neither the kubelet nor anybody else on
// the host. Its pod can be deleted.
func TestPodFuseProgramThatStops(t *testing.T) {
	m := newPodFuse("stopped")
	p := runPod(t, m)
	p.mustExec(t, "main", "cat", dataDir+"/file")
	if err := unix.Kill(p.program(t), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waits := p.execCommand(context.Background(), t, "main", "cat", dataDir+"/file")
	if err := waits.Start(); err != nil {
		t.Fatal(err)
	}
	defer waits.Wait() // its container ends
	watch := stopwatch.Start()
	for _, argv := range [][]string{{"find", p.volumeDirs(podFuseName)}, {"df", "-a"}, {"stat", filepath.Join(p.volumeDirs(podFuseName), "data")}} {
		var stderr strings.Builder // df's output has our mounts
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Stderr = &stderr
		err := cmd.Run()
		// df fails for any dead mount of the machine, also for one that is none of ours.
		if err != nil && (argv[0] != "df" || strings.Contains(stderr.String(), testNode.Dir)) {
			t.Errorf("%v: %v: %s", argv, err, stderr.String())
		}
	}
	if took, late := watch.Stop(); took > 5*time.Second {
		t.Errorf("find, df and stat took %v, and the machine stood still for %v", took, late)
	}
	if err := testNode.killKubelet(); err != nil {
		t.Fatal(err)
	}
	if err := testNode.startKubelet(); err != nil {
		t.Fatal(err)
	}
	if err := p.delete(); err != nil {
		t.Error(err)
	}
}
