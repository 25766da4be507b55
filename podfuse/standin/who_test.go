package standin

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

const (
	podUID   = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1" // in testdata
	otherUID = "7f0e8a52-93d1-4a6f-8a55-0d6b0a2f9c11"
	runDir   = "/run/pod-fuse/example.com~pod-fuse"
)

var (
	clientRecord = volume.Record{Dir: "/var/lib/kubelet/pods/" + podUID + "/volumes/example.com~pod-fuse/data", PodUID: podUID}
	serverRecord = volume.Record{Dir: "/var/lib/kubelet/pods/" + podUID + "/volumes/example.com~pod-fuse/data-server", PodUID: podUID}
)

// The texts in testdata have the form that kubelets, container runtimes and kernels give them.
// ID and SERVER in them stand for the volumes' ids.
func testdata(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("/ID", "/"+clientRecord.ID().String(), "/SERVER", "/"+serverRecord.ID().String()).Replace(string(text))
}

// tree is a /proc, with files by their names in it.
type tree map[string]string

func (files tree) write(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// process adds a process, which shows these texts of testdata, and this one.
func (files tree) process(t testing.TB, pid, cgroup, mountinfo string) tree {
	files[pid+"/cgroup"], files[pid+"/mountinfo"] = testdata(t, "cgroup/"+cgroup), testdata(t, "mountinfo/"+mountinfo)
	return files
}

func (files tree) processes(t testing.TB) *processes {
	t.Helper()
	files.process(t, "self", "pair", "host")
	root := files.write(t)
	p, err := newProcesses(root, root+"/self/cgroup", runDir+"/fs", runDir+"/servers")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *processes) container(thread uint32, v volume.Record) (key string, is bool) {
	if _, may := p.canBeContainer(thread, v); !may {
		return "", false
	}
	return p.view(thread, v)
}

func TestWhoseViewAProcessHas(t *testing.T) {
	containers := []string{"systemd", "cgroupfs", "legacy", "nopods", "crio", "kind", "nested"}
	for _, c := range []struct {
		cgroups   []string
		mountinfo string
		want      string // the key; "": the host's
	}{
		{containers, "container", "908 "},
		{containers, "attached-and-subpath", "908 909 "},
		{containers, "program-and-reader", "908 "},
		{containers, "runc-init", ""},
		{containers, "host", ""},
		{containers, "program", ""},
		{containers, "no-volume", ""},
		{containers, "look-alikes", ""},
		{[]string{"kubelet", "kubelet-legacy"}, "host", ""},
		{[]string{"kubelet", "kubelet-legacy"}, "container", "908 "}, // without cgroups of pods, these can be anything
		{[]string{"other-pod"}, "node-agent", ""},
		{[]string{"nopods"}, "node-agent", ""},
		{[]string{"other-pod"}, "container", ""},
		{[]string{"pair", "mounter"}, "container", ""},
	} {
		for _, cgroup := range c.cgroups {
			p := tree{}.process(t, "101", cgroup, c.mountinfo).processes(t)
			key, is := p.container(101, clientRecord)
			if key != c.want || is != (c.want != "") {
				t.Errorf("cgroup of %s, mounts of %s: %q, %v; want %q", cgroup, c.mountinfo, key, is, c.want)
			}
		}
	}
}

func TestAProcessThatIsGoneIsNoContainers(t *testing.T) {
	p := tree{"102/cgroup": testdata(t, "cgroup/systemd")}.process(t, "101", "systemd", "container").processes(t)
	for _, pid := range []uint32{0, 102, 103} {
		if _, is := p.container(pid, clientRecord); is {
			t.Errorf("process %d is held", pid)
		}
	}
}

// What the volume is mounted on tells the host from a container, and no path: the kubelet's may
// have links in it, a node agent sees it below another path, and a container may have the volume on
// a path like the kubelet's.
func TestTheHostIsKnownByTheDirectory(t *testing.T) {
	const linked, elsewhere = "/var/lib/kubelet/pods/", "/mnt/disk/"
	kubelets := clientRecord.Dir
	agent := testdata(t, "mountinfo/node-agent")
	byHand := clientRecord
	byHand.Dir = "/data"
	for name, c := range map[string]struct {
		record     volume.Record
		host, text string
		want       bool // a container's
	}{
		"a link":                        {clientRecord, strings.ReplaceAll(testdata(t, "mountinfo/host"), linked, elsewhere), strings.ReplaceAll(testdata(t, "mountinfo/host"), linked, elsewhere), false},
		"a node agent beside a link":    {clientRecord, strings.ReplaceAll(testdata(t, "mountinfo/host"), linked, elsewhere), strings.ReplaceAll(strings.ReplaceAll(agent, "/var/lib/kubelet /host/var/lib/kubelet", "/mnt /agent"), "/host"+linked, "/agent/disk/"), false},
		"a container beside a link":     {clientRecord, strings.ReplaceAll(testdata(t, "mountinfo/host"), linked, elsewhere), testdata(t, "mountinfo/container"), true},
		"on a path like the kubelet's":  {clientRecord, testdata(t, "mountinfo/host"), strings.ReplaceAll(testdata(t, "mountinfo/container"), " /data ", " "+kubelets+" "), true},
		"a file system of the agent's":  {clientRecord, testdata(t, "mountinfo/host"), strings.ReplaceAll(agent, "259:2", "259:3"), true},
		"another directory of the host": {clientRecord, testdata(t, "mountinfo/host"), strings.ReplaceAll(agent, "901 259:2 /var/lib/kubelet ", "901 259:2 /var/lib "), true},
		"one on top of a dead one": {clientRecord, strings.Replace(testdata(t, "mountinfo/host"), "703 28 0:72", "699 28 0:70 /ID "+kubelets+" rw - fuse x rw\n703 699 0:72", 1),
			strings.Replace(agent, "921 920 0:72", "919 920 0:70 /ID /host"+kubelets+" rw - fuse x rw\n921 919 0:72", 1), false},
		"a container with one on top of a dead one": {clientRecord, strings.Replace(testdata(t, "mountinfo/host"), "703 28 0:72", "699 28 0:70 /ID "+kubelets+" rw - fuse x rw\n703 699 0:72", 1),
			strings.Replace(testdata(t, "mountinfo/container"), "908 901 0:72", "905 901 0:70 /ID /data rw - fuse x rw\n908 905 0:72", 1), true},
		"the kubelet has another mount namespace": {clientRecord, regexp.MustCompile("(?m)^703 .*\n").ReplaceAllString(testdata(t, "mountinfo/host"), ""), agent, false},
		"by hand": {byHand, testdata(t, "mountinfo/host"), strings.ReplaceAll(testdata(t, "mountinfo/host"), kubelets, byHand.Dir), false},
	} {
		files := tree{}.process(t, "self", "pair", "host").process(t, "101", "systemd", "container")
		id := strings.NewReplacer(clientRecord.ID().String(), c.record.ID().String())
		files["self/mountinfo"], files["101/mountinfo"] = id.Replace(c.host), id.Replace(c.text)
		root := files.write(t)
		p, err := newProcesses(root, root+"/self/cgroup", runDir+"/fs", runDir+"/servers")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // once as it is found, and once as it is remembered
			if _, is := p.container(101, c.record); is != c.want {
				t.Errorf("%s: taken for a container's: %v", name, is)
			}
		}
	}
}

// What a pod makes up costs us a bounded time, and has the host's view.
// The node of a hundred pods has more mounts than are read of a container.
func TestANodeWithManyMounts(t *testing.T) {
	files := tree{}.process(t, "101", "systemd", "container").process(t, "self", "pair", "host")
	other := "7 1 0:99 / /var/lib/kubelet/pods/x rw - overlay overlay rw,lowerdir=" + strings.Repeat("/layer", 100) + "\n"
	files["self/mountinfo"] = strings.Repeat(other, 2*wire.MostMounts/len(other)) + files["self/mountinfo"]
	root := files.write(t)
	p, err := newProcesses(root, root+"/self/cgroup", runDir+"/fs", runDir+"/servers")
	if err != nil {
		t.Fatal(err)
	}
	if _, is := p.container(101, clientRecord); !is {
		t.Error("a container's process has the host's view")
	}
}

func TestOfHostileMountsNotAllIsRead(t *testing.T) {
	stranger := "940 901 0:91 /%0*d /x rw,relatime - overlay overlay rw\n"
	mine := testdata(t, "mountinfo/container")
	for name, c := range map[string]struct {
		mountinfo string
		want      bool
	}{
		"much":                 {strings.Repeat(fmt.Sprintf(stranger, 4000, 7), 25) + mine, true},
		"too much":             {mine + strings.Repeat(fmt.Sprintf(stranger, 4000, 7), 40), false},
		"no line at all":       {strings.Repeat("\n", 1000) + mine, true},
		"what is no mountinfo": {strings.Repeat("908 \n", 1000) + mine, true},
	} {
		p := tree{"101/cgroup": testdata(t, "cgroup/systemd"), "101/mountinfo": c.mountinfo}.processes(t)
		if _, is := p.container(101, clientRecord); is != c.want {
			t.Errorf("%s: %v", name, is)
		}
	}
}

func TestWhichServerVolumesAProcessHas(t *testing.T) {
	for mountinfo, want := range map[string][]volume.ID{
		"program": {serverRecord.ID()}, "program-and-reader": {serverRecord.ID()}, "container": nil, "no-volume": nil,
	} {
		p := tree{}.process(t, "101", "systemd", mountinfo).processes(t)
		got, err := p.servers("101")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v; want %v", mountinfo, got, err, want)
		}
	}
	if _, err := (tree{}).processes(t).servers("101"); err == nil {
		t.Error("a process that is gone: no error")
	}
}

// The fuzzer looks for texts on which it panics, or which it does not come to an end with.
func FuzzProcess(f *testing.F) {
	for _, name := range []string{"container", "attached-and-subpath", "runc-init", "node-agent"} {
		f.Add([]byte(testdata(f, "cgroup/legacy")), []byte(testdata(f, "mountinfo/"+name)))
	}
	root := tree{}.process(f, "self", "pair", "host").write(f)
	p, err := newProcesses(root, root+"/self/cgroup", runDir+"/fs", runDir+"/servers")
	if err != nil {
		f.Fatal(err)
	}
	dir := filepath.Join(root, "101")
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, cgroup, mountinfo []byte) {
		for name, text := range map[string][]byte{"cgroup": cgroup, "mountinfo": mountinfo} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		key, is := p.container(101, clientRecord)
		if is && (!strings.Contains(string(mountinfo), clientRecord.ID().String()) || key == "") {
			t.Errorf("view %q", key)
		}
		_, _ = p.servers("101")
	})
}

// BenchmarkWho is what each request of a stand-in costs, with the mounts of this machine.
func BenchmarkWho(b *testing.B) {
	p, err := newProcesses("/proc", "/proc/self/cgroup", "/proc", "/dev")
	if err != nil {
		b.Fatal(err)
	}
	p.self = nil
	self := uint32(os.Getpid())
	b.ReportAllocs()
	for range b.N {
		p.container(self, clientRecord)
	}
}
