package mounter

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
)

// callOut is one in a PID namespace of its own, with other processes.
type callOut struct {
	Config Config
	Do     string // "ensure" or "stop"
	Before int    // how many other processes it starts before

	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// begin returns what the call-out's error is. The processes stay until end.
func (c *callOut) begin(t *testing.T) string {
	t.Helper()
	c.t = t
	text, _ := json.Marshal(c)
	c.cmd = exec.Command("/proc/self/exe", "elsewhere", string(text))
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	must(t, c.cmd.Start())
	c.in, c.out = in, bufio.NewReader(out)
	t.Cleanup(func() { c.end() })
	return c.line()
}

func (c *callOut) line() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Errorf("the call-out has ended: %v", err)
	}
	return strings.TrimSpace(line)
}

// end ends all in the namespace, and returns how many of the other processes had been killed
// before.
func (c *callOut) end() (killed string) {
	if c.in == nil {
		return "0"
	}
	c.in.Close()
	c.in = nil
	killed = c.line()
	_ = c.cmd.Wait()
	return killed
}

// elsewhereMain is the first process of the namespace.
func elsewhereMain(args []string) error {
	var c callOut
	if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	var others []int
	for range c.Before {
		cmd := exec.Command("/bin/sleep", "3600") // one thread, one number
		if err := cmd.Start(); err != nil {
			return err
		}
		others = append(others, cmd.Process.Pid)
	}
	client := Client{Config: c.Config, Log: calllog.New("test", filepath.Join(c.Config.RunDir, "log"))}
	var err error
	if c.Do == "stop" {
		err = client.Stop()
	} else {
		_, err = client.Ensure()
	}
	text := strings.ReplaceAll(fmt.Sprint(err), "\n", "; ")
	fmt.Println(text)
	_, _ = io.Copy(io.Discard, os.Stdin)
	killed := 0
	for _, pid := range others {
		if ended, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err != nil || ended == pid {
			killed++
		}
	}
	fmt.Println(killed)
	return nil
}

// none is an error that there is not, as a call-out prints it.
const none = "<nil>"

func newElsewhere(t *testing.T) Client {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	dir := t.TempDir()
	client := Client{Config: Config{podfuse.Layout{RunDir: dir}, "fuse.pod-fuse", source, thisTest}, Log: calllog.New("test", filepath.Join(dir, "log"))}
	w := &world{t: t, client: client}
	t.Cleanup(w.checkLeft)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("log:\n%s", log)
		}
	})
	return client
}

// Who stops the mounter from another PID namespace is told so, and kills nobody who has there the
// number that the mounter or its spare has in its own. That holds for one above, too.
func TestStopFromAnotherPIDNamespace(t *testing.T) {
	t.Parallel()
	client := newElsewhere(t)
	w := &world{t: t, client: client}
	a := &callOut{Config: client.Config, Do: "ensure", Before: 100}
	if text := a.begin(t); text != none {
		t.Fatal(text)
	}
	before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	b := &callOut{Config: client.Config, Do: "stop", Before: before.Spare + 10}
	if text := b.begin(t); !strings.Contains(text, errElsewhere.Error()) {
		t.Errorf("%s", text)
	}
	if killed := b.end(); killed != "0" {
		t.Errorf("%s processes of its own namespace are killed", killed)
	}
	if t.Failed() {
		return // or the next one might do so to this machine's
	}
	if err := client.Stop(); !errors.Is(err, errElsewhere) {
		t.Errorf("from the namespace above: %v", err)
	}
	if after := w.now(); after.PID != before.PID || after.Spare != before.Spare {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if killed := a.end(); killed != "0" {
		t.Errorf("%s processes of its namespace are killed", killed)
	}
	must(t, client.Stop()) // all of that namespace have ended
}

// Somebody has removed the file of its lock, by which nobody can tell any more who it is. It ends
// all the same.
func TestStopWithoutTheFileOfTheLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	var all []*process
	for _, pid := range []int{now.PID, now.Spare} {
		p, err := openProcess(pid)
		must(t, err)
		defer p.Close()
		all = append(all, p)
	}
	must(t, os.Remove(w.client.lockPath()))
	must(t, w.client.Stop())
	for _, p := range all {
		eventually(t, "it has ended", func() bool { return p.Alive() != nil })
	}
}

// A call-out of another version that is in another PID namespace does not replace the mounter, and
// leaves nothing behind.
func TestReplaceFromAnotherPIDNamespace(t *testing.T) {
	t.Parallel()
	client := newElsewhere(t)
	w := &world{t: t, client: client}
	a := &callOut{Config: client.Config, Do: "ensure"}
	if text := a.begin(t); text != none {
		t.Fatal(text)
	}
	before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	newer := client.Config
	newer.Version = "2.0"
	b := &callOut{Config: newer, Do: "ensure", Before: 300}
	if text := b.begin(t); !strings.Contains(text, errElsewhere.Error()) {
		t.Errorf("%s", text)
	}
	if left := (&pod{pid: b.cmd.Process.Pid}).programs(Verb); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if killed := b.end(); killed != "0" {
		t.Errorf("%s processes of its own namespace are killed", killed)
	}
	if after := w.now(); after.PID != before.PID || after.Spare != before.Spare {
		t.Errorf("before %+v, after %+v", before, after)
	}
	a.end()
	must(t, client.Stop())
}

// What processes use is told of the mounter and its spare, and of nobody else who says that it is
// the mounter.
func TestUsageIsOfTheMounterAndItsSpare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	self := os.Getpid()
	for _, test := range []struct {
		says           Status
		mounter, spare bool
	}{
		{Status{PID: now.PID, Spare: now.Spare}, true, true},
		{Status{PID: now.PID}, true, false},
		{Status{PID: now.Spare, Spare: now.PID}, false, false},
		{Status{PID: self, Spare: now.Spare}, false, false},
		{Status{}, false, false},
	} {
		mounter, spare := w.client.Usage(test.says)
		if (mounter != nil) != test.mounter || (spare != nil) != test.spare {
			t.Errorf("of the mounter %d, the spare %d and this process %d, %+v says numbers: %v, %v", now.PID, now.Spare, self, test.says, mounter, spare)
		}
		for _, u := range []*proc.Usage{mounter, spare} {
			if u != nil && (u.ResidentMemory < 1<<20 || u.ResidentMemory > 1<<30) {
				t.Errorf("of %+v: %+v", test.says, u)
			}
		}
	}
}
