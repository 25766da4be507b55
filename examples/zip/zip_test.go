package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/survivetest"
)

// content is the content of each file of the archive, by its path.
func content() map[string][]byte {
	all := map[string][]byte{}
	for i := range 3000 {
		all[fmt.Sprintf("%02d/%04d.txt", i%30, i)] = bytes.Repeat(fmt.Appendf(nil, "file %d\n", i), i%100)
	}
	var large bytes.Buffer
	for large.Len() < 300_000 {
		fmt.Fprintf(&large, "%d\n", large.Len())
	}
	all["large"], all["streamed"] = large.Bytes(), large.Bytes()
	return all
}

func writeArchive(t *testing.T, dir string, content map[string][]byte) (path string) {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range content {
		method := zip.Deflate
		if name == "large" {
			method = zip.Store
		}
		entry, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil {
			_, err = entry.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(dir, "archive.zip")
	// Only root can read it: the process that serves gets it open.
	if err := errors.Join(w.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnArchiveSurvives(t *testing.T) {
	t.Parallel()
	few := map[string][]byte{"large": content()["large"][:100_000], "streamed": content()["large"][:100_000]}
	for i := range 20 {
		few[fmt.Sprintf("dir/%d", i)] = bytes.Repeat([]byte{byte(i)}, i)
	}
	file, err := os.Open(writeArchive(t, t.TempDir(), few))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	survivetest.Test{Driver: driver, Site: survive.Site{Input: file}}.Run(t)
}

// program is this one, built.
type program struct {
	t         *testing.T
	path, dir string // where it is, and the directory that it mounts on
}

// build builds a version.
func (p program) build(version string) {
	p.t.Helper()
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+version, "-o", p.path+"-"+version)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		p.t.Fatalf("build: %v\n%s", err, output)
	}
}

// becomes puts a version in the place of the one that is there.
func (p program) becomes(version string) {
	p.t.Helper()
	next := p.path + ".next"
	if err := errors.Join(os.Link(p.path+"-"+version, next), os.Rename(next, p.path)); err != nil {
		p.t.Fatal(err)
	}
}

func (p program) call(args ...string) string {
	p.t.Helper()
	output, err := p.try(args...)
	if err != nil {
		p.t.Fatalf("%q: %v: %s", args, err, output)
	}
	return output
}

func (p program) try(args ...string) (string, error) {
	command := exec.Command(p.path, args...)
	// Or those who serve leave the cgroup that this test is in.
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
	output, err := command.CombinedOutput()
	return string(output), err
}

type status struct {
	Dir, Source, State string
	Daemon             struct {
		Active, Standby struct {
			PID     int
			Version string
		}
	}
}

func (p program) status() status {
	p.t.Helper()
	var all []status
	text := p.call("status", "-o", "json", p.dir)
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 1 {
		p.t.Fatalf("%v: %s", err, text)
	}
	return all[0]
}

// pair waits until two processes of a version are there, and neither is one that ended.
func (p program) pair(version string, ended int) (active, standby int) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		now := p.status()
		a, s := now.Daemon.Active, now.Daemon.Standby
		if a.Version == version && s.Version == version && a.PID != 0 && s.PID != 0 && a.PID != ended && s.PID != ended {
			return a.PID, s.PID
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("no two processes of version %s: %+v", version, now)
		}
	}
}

func (p program) kill(pids ...int) {
	p.t.Helper()
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // so that none takes over
		for _, pid := range pids {
			if signal == syscall.SIGSTOP && len(pids) == 1 {
				continue
			}
			if err := syscall.Kill(pid, signal); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// readers read all the while, and none of them sees an error.
type readers struct {
	t     *testing.T
	dir   string
	want  map[string][]byte
	end   chan struct{}
	stop  func()
	group sync.WaitGroup
	reads []*atomic.Int64 // that each has done
}

func (p program) read(want map[string][]byte) *readers {
	r := &readers{t: p.t, dir: p.dir, want: want, end: make(chan struct{})}
	r.stop = sync.OnceFunc(func() { close(r.end); r.group.Wait() })
	p.t.Cleanup(r.stop)
	var names []string
	for name := range want {
		names = append(names, name)
	}
	for range 2 {
		r.begin(func() error { return r.readFile(names[rand.N(len(names))]) })
	}
	r.begin(func() error { return r.list(fmt.Sprintf("%02d", rand.N(30)), 100) })
	r.begin(r.readOpen("large"))
	r.begin(r.readOpen("streamed"))
	return r
}

func (r *readers) begin(read func() error) {
	reads := new(atomic.Int64)
	r.reads = append(r.reads, reads)
	r.group.Go(func() {
		for {
			select {
			case <-r.end:
				return
			default:
			}
			if err := read(); err != nil {
				r.t.Error(err)
				return
			}
			reads.Add(1)
			time.Sleep(time.Millisecond) // the CPUs are also others'
		}
	})
}

// goOn waits until each of them has read twice. What was being read when a process was killed has
// been answered by then: two processes that end with the same request have it refused.
func (r *readers) goOn() {
	r.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, reads := range r.reads {
		for want := reads.Load() + 2; reads.Load() < want; time.Sleep(time.Millisecond) {
			if r.t.Failed() || time.Now().After(deadline) {
				r.t.Fatal("a reader does not go on")
			}
		}
	}
}

// readFile reads a file; not what the kernel has kept of it.
func (r *readers) readFile(name string) error {
	file, err := os.OpenFile(filepath.Join(r.dir, name), unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	got, err := io.ReadAll(file)
	if err == nil && !bytes.Equal(got, r.want[name]) {
		err = fmt.Errorf("%s has %d bytes, which are not what it should have", name, len(got))
	}
	return err
}

// readOpen reads a file that stays open, somewhere.
func (r *readers) readOpen(name string) func() error {
	file, err := os.OpenFile(filepath.Join(r.dir, name), unix.O_DIRECT, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	want := r.want[name]
	return func() error {
		select {
		case <-r.end:
			return file.Close()
		default:
		}
		offset, buffer := rand.N(len(want)), make([]byte, 10_000)
		n, err := file.ReadAt(buffer, int64(offset))
		if (err == nil || err == io.EOF) && bytes.Equal(buffer[:n], want[offset:min(offset+len(buffer), len(want))]) {
			return nil
		}
		return fmt.Errorf("read %s at %d: %d bytes, %v", name, offset, n, err)
	}
}

func (r *readers) list(name string, want int) error {
	entries, err := os.ReadDir(filepath.Join(r.dir, name))
	if err == nil && len(entries) != want {
		err = fmt.Errorf("%s has %d names, want %d", name, len(entries), want)
	}
	return err
}

// all reads everything once.
func (r *readers) all() {
	r.t.Helper()
	for name := range r.want {
		if err := r.readFile(name); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestAnArchiveOutlivesItsProcesses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	p := program{t, filepath.Join(t.TempDir(), "zip"), t.TempDir()}
	p.build("1.0.0")
	p.build("1.0.1")
	p.becomes("1.0.0")
	want := content()
	source := writeArchive(t, t.TempDir(), want)
	t.Cleanup(func() { _, _ = p.try("umount", p.dir) })
	p.call("mount", source, p.dir)
	p.call("mount", source, p.dir) // as often as one likes

	reading := p.read(want)
	ended := 0
	kill := func(version string) {
		active, _ := p.pair(version, ended)
		reading.goOn()
		p.kill(active)
		ended = active
	}
	const deaths = 3 // of each version; e2e/chaos kills more
	for range deaths {
		kill("1.0.0")
	}
	p.becomes("1.0.1")
	p.pair("1.0.0", ended)
	p.call("upgrade")
	for range deaths {
		kill("1.0.1")
	}
	p.becomes("1.0.0")
	p.pair("1.0.1", ended)
	p.call("upgrade", p.dir)
	active, standby := p.pair("1.0.0", 0)
	reading.all()
	reading.stop()

	p.kill(active, standby)
	if err := reading.readFile("large"); err == nil {
		t.Error("it was not lost")
	}
	if got := p.status(); got.State != "dead" || got.Dir != p.dir || got.Source != source {
		t.Errorf("after a loss: %+v", got)
	}
	// It fails where it finds the mount in a container, of another test, that ends meanwhile.
	if text, err := p.try("restore"); !strings.Contains(text, "healed: "+p.dir+"\n") {
		t.Errorf("restore: %v, %s", err, text)
	}
	active, standby = p.pair("1.0.0", 0)
	reading.all()
	p.kill(active, standby)
	p.call("mount", source, p.dir) // as systemd does
	reading.all()

	if text, err := p.try("mount", p.path, p.dir); err == nil || !strings.Contains(text, "is mounted from "+source+"; unmount it first") {
		t.Errorf("mount of something else: %v, %s", err, text)
	}
	p.call("umount", p.dir)
	if entries, err := os.ReadDir(p.dir); err != nil || len(entries) != 0 {
		t.Errorf("after umount: %v, %v", entries, err)
	}
	if text, err := p.try("mount", p.path, p.dir); err == nil || !strings.Contains(text, "zip: not a valid zip file") {
		t.Errorf("mount of no archive: %v, %s", err, text)
	}
	if text, err := p.try("status", p.dir); err == nil {
		t.Errorf("a mount that failed has left something: %s", text)
	}
}

// The timer of the systemd unit heals at any time, also while something is being mounted or
// unmounted.
func TestRestoreBesideMountAndUmount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	p := program{t, filepath.Join(t.TempDir(), "zip"), t.TempDir()}
	p.build("1.0.0")
	p.becomes("1.0.0")
	want := content()["large"]
	source := writeArchive(t, t.TempDir(), map[string][]byte{"large": want})
	t.Cleanup(func() { _, _ = p.try("umount", p.dir) })
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				_, _ = p.try("restore", p.dir) // which says that nothing is mounted there
			}
		}
	}()
	for i := range 20 {
		p.call("mount", source, p.dir)
		if got, err := os.ReadFile(filepath.Join(p.dir, "large")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("mount %d: %v", i, err)
		}
		p.call("umount", p.dir)
	}
	close(end)
	<-ended
	if text, err := p.try("status", p.dir); err == nil {
		t.Errorf("something is left: %s", text)
	}
}
