package pod_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hang is how long is waited for what takes milliseconds on a machine that has nothing else to do.
const hang = time.Minute

// process is the first of a container.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	output string // path of stdout and stderr
	done   chan struct{}
}

// serverDir is where the server volume is in containers. It is not the usual place: that would
// hide where nothing has looked.
func (d *fakeDriver) serverDir() string {
	return filepath.Join(filepath.Dir(filepath.Dir(d.at)), "run")
}

// run starts a program in a container of uid 1000 with the server volume's directory.
func (d *fakeDriver) run(args ...string) *process {
	d.t.Helper()
	return d.contain(container{UID: 1000, Args: args})
}

// launch does so by the launcher.
func (d *fakeDriver) launch(args ...string) *process {
	d.t.Helper()
	return d.run(append([]string{filepath.Join(d.serverDir(), "pod-fuse")}, args...)...)
}

// contain starts any container. Each has the server volume.
func (d *fakeDriver) contain(c container) *process {
	d.t.Helper()
	if err := os.Mkdir(d.serverDir(), 0o755); err != nil && !os.IsExist(err) {
		d.t.Fatal(err)
	}
	binds := map[string]string{d.serverDir(): d.dir, "/dev/fuse": filepath.Join(d.dir, "fuse")}
	for at, what := range c.Binds {
		binds[at] = what
	}
	c.Binds = binds
	text, err := json.Marshal(c)
	must(d.t, err)
	output, err := os.CreateTemp(filepath.Dir(d.serverDir()), "output-")
	must(d.t, err)
	defer output.Close()
	p := &process{t: d.t, output: output.Name(), done: make(chan struct{}), cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), containerVariable+"="+string(text), "TMPDIR=/tmp",
		"PATH="+d.serverDir()+":"+os.Getenv("PATH")) // before the image's own fusermount3
	p.cmd.Env = append(p.cmd.Env, c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS} // Unshareflags would make it private
	if c.Proc {
		p.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID
	}
	must(d.t, p.cmd.Start())
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	d.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		select {
		case <-p.done:
		case <-time.After(2 * time.Second):
			if d.listen != nil {
				d.stop()
			}
			<-p.done
		}
		if d.t.Failed() {
			d.t.Logf("%s printed:\n%s", strings.Join(c.Args, " "), p.text())
		}
	})
	return p
}

// text is what it has printed until now.
func (p *process) text() string {
	text, err := os.ReadFile(p.output)
	must(p.t, err)
	return string(text)
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(s))
}

// status waits for its end, and returns the exit status; of a signal, -1.
func (p *process) status() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(hang):
		p.t.Fatal("it does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// prints waits for a text in its output.
func (p *process) prints(text string) {
	p.t.Helper()
	eventually(p.t, "prints "+text, func() bool { return strings.Contains(p.text(), text) })
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
