package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
)

// stuckActive has the active process wait in the kernel for its own answer: killed, it
// stays a zombie with its locks and the connection.
func (d installed) stuckActive(volume string) (active, standby int) {
	d.t.Helper()
	active, standby = d.pair()
	write(d.t, filepath.Join(d.runDir, "stuck"), fmt.Sprintln(active))
	d.t.Cleanup(func() { _ = os.Remove(filepath.Join(d.runDir, "stuck")) })
	read(d.t, volume, "pod.nodename")
	eventually(d.t, "the active process waits for itself", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", active))
		for _, path := range threads {
			if call, _ := os.ReadFile(path); strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_STATFS)+" ") {
				return true
			}
		}
		return false
	})
	// Requests are handed out in order: when this one is answered, the one before it has been read, too, and a
	// killed process no longer takes it back (fs/fuse/dev.c, request_wait_answer).
	read(d.t, volume, "pod.nodename")
	return active, standby
}

func (d installed) installStuck() {
	d.t.Helper()
	good := filepath.Join(d.t.TempDir(), "good")
	if err := os.Link(d.path, good); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { d.replaceBinary(good) })
	d.replaceBinary(build(d.t, "stuck", "attack"))
}

// Nobody serves, in several ways. Whatever is called next gets through, and heals.
func TestNobodyServes(t *testing.T) {
	for state, make := range map[string]func(d installed, volume string){
		"the active process was killed and cannot end": func(d installed, volume string) {
			active, standby := d.stuckActive(volume)
			suspend(t, standby)
			kill(t, active)
			kill(t, standby)
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", active)); err != nil || !strings.Contains(string(stat), ") Z ") {
				t.Errorf("the active process is no zombie: %s, %v", stat, err)
			}
		},
		"the active process is stopped, the standby is dead": func(d installed, _ string) {
			active, standby := d.pair()
			suspend(t, active)
			kill(t, standby)
		},
		"both are stopped": func(d installed, _ string) { d.stopPair() },
	} {
		for _, command := range []string{"init", "restore", "mount", "stop --force"} {
			t.Run(state+"/"+command, func(t *testing.T) {
				t.Parallel() // it waits for seconds
				d := install(t)
				d.installStuck()
				volume := d.mount()
				container := startContainer(t, volume)
				make(d, volume)
				args := strings.Fields(command)
				if command == "mount" {
					args = append(args, t.TempDir(), edit(podUID, uidOf(1)))
				}
				began := time.Now()
				d.ends(args...)
				t.Logf("it took %v", time.Since(began))
				if command == "stop --force" {
					return
				}
				if got := read(t, volume, "pod.uid"); got != podUID+"\n" {
					t.Errorf("pod.uid is %q", got)
				}
				if got := container.read("volume/pod.uid"); got != podUID {
					t.Errorf("in the container: %q", got)
				}
				d.pair()
				eventually(t, "the processes of before are gone", func() bool { return len(daemonsOf(d)) == 2 })
			})
		}
	}
}

// ends runs a command that must succeed, and end.
func (d installed) ends(args ...string) {
	d.t.Helper()
	command := d.command(args...)
	timer := time.AfterFunc(forever, func() {
		d.t.Errorf("%q has not ended after %v", args[0], forever)
		_ = unix.Unmount(filepath.Join(d.runDir, "fs"), unix.MNT_FORCE|unix.MNT_DETACH)
	})
	defer timer.Stop()
	if output, err := command.CombinedOutput(); err != nil || strings.Contains(string(output), "Failure") {
		d.t.Errorf("%q: %v: %s", args[0], err, output)
	}
}

// isBack checks that readers waited no longer than docs/dev/survival.md says, on a machine that
// has a CPU for everybody.
func isBack(t *testing.T, watch *stopwatch.Watch) {
	t.Helper()
	took, late := watch.Stop()
	t.Logf("service was back after %v, and %v in which the machine was late", took, late)
	if took > 6*time.Second {
		t.Errorf("service was back after %v", took)
	}
}

// However the active process ends, or does not, its readers wait no longer than is promised.
func TestAProcessThatCannotEndIsReplaced(t *testing.T) {
	for name, signal := range map[string]unix.Signal{"killed": unix.SIGKILL, "stopped": unix.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for seconds
			d := install(t)
			d.installStuck()
			volume := d.mount()
			active, standby := d.stuckActive(volume)
			if err := unix.Kill(active, signal); err != nil {
				t.Fatal(err)
			}
			watch := stopwatch.Start()
			if got := read(t, volume, "pod.nodename"); got == "" { // waits until somebody answers
				t.Error("pod.nodename is empty")
			}
			isBack(t, watch)
			if now, _ := d.pair(); now != standby {
				t.Errorf("process %d is active, want the standby %d", now, standby)
			}
			eventually(t, "it has ended, as it was answered", func() bool { return !alive(active) && len(daemonsOf(d)) == 2 })
		})
	}
}
