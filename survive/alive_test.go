package survive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/testnode"
)

// stuckActive has the active process wait in the kernel for its own answer: killed, it
// stays a zombie with its locks and the connection.
func stuckActive(d testnode.Driver, volume string) (active, standby int) {
	d.T.Helper()
	active, standby = d.Pair()
	testnode.Write(d.T, filepath.Join(d.RunDir, "stuck"), fmt.Sprintln(active))
	d.T.Cleanup(func() { _ = os.Remove(filepath.Join(d.RunDir, "stuck")) })
	testnode.Read(d.T, volume, "pod.nodename")
	testnode.Eventually(d.T, "the active process waits for itself", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", active))
		for _, path := range threads {
			if call, _ := os.ReadFile(path); strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_STATFS)+" ") {
				return true
			}
		}
		return false
	})
	// Requests are handed out in order: when this one is answered, the one before it has been read,
	// too, and a killed process no longer takes it back (fs/fuse/dev.c, request_wait_answer).
	testnode.Read(d.T, volume, "pod.nodename")
	return active, standby
}

func installStuck(d testnode.Driver) {
	d.T.Helper()
	good := filepath.Join(d.T.TempDir(), "good")
	if err := os.Link(d.Path, good); err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(func() { d.ReplaceBinary(good) })
	d.ReplaceBinary(testnode.Build(d.T, "stuck", "attack"))
}

// Nobody serves, in several ways. Whatever is called next gets through, and heals.
func TestNobodyServes(t *testing.T) {
	for state, make := range map[string]func(d testnode.Driver, volume string){
		"the active process was killed and cannot end": func(d testnode.Driver, volume string) {
			active, standby := stuckActive(d, volume)
			testnode.Suspend(t, standby)
			testnode.Kill(t, active)
			testnode.Kill(t, standby)
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", active)); err != nil || !strings.Contains(string(stat), ") Z ") {
				t.Errorf("the active process is no zombie: %s, %v", stat, err)
			}
		},
		"the active process is stopped, the standby is dead": func(d testnode.Driver, _ string) {
			active, standby := d.Pair()
			testnode.Suspend(t, active)
			testnode.Kill(t, standby)
		},
		"both are stopped": func(d testnode.Driver, _ string) { d.StopPair() },
	} {
		for _, command := range []string{"init", "restore", "mount", "stop --force"} {
			t.Run(state+"/"+command, func(t *testing.T) {
				t.Parallel() // it waits for seconds
				d := testnode.Install(t)
				installStuck(d)
				volume := d.Mount()
				container := startContainer(t, volume)
				make(d, volume)
				args := strings.Fields(command)
				if command == "mount" {
					args = append(args, t.TempDir(), testnode.Edit(testnode.PodUID, uidOf(1)))
				}
				began := time.Now()
				ends(d, args...)
				t.Logf("it took %v", time.Since(began))
				if command == "stop --force" {
					return
				}
				if got := testnode.Read(t, volume, "pod.uid"); got != testnode.PodUID+"\n" {
					t.Errorf("pod.uid is %q", got)
				}
				if got := container.read("volume/pod.uid"); got != testnode.PodUID {
					t.Errorf("in the container: %q", got)
				}
				if command == "mount" {
					if got := testnode.Read(t, args[1], "pod.uid"); got != fmt.Sprintln(uidOf(1)) {
						t.Errorf("what was mounted: pod.uid is %q", got)
					}
				}
				d.Pair()
				testnode.Eventually(t, "the processes of before are gone", func() bool { return len(testnode.DaemonsOf(d)) == 2 })
			})
		}
	}
}

// ends runs a command that must succeed, and end.
func ends(d testnode.Driver, args ...string) {
	d.T.Helper()
	command := d.Command(args...)
	timer := time.AfterFunc(testnode.Forever, func() {
		d.T.Errorf("%q has not ended after %v", args[0], testnode.Forever)
		_ = unix.Unmount(filepath.Join(d.RunDir, "fs"), unix.MNT_FORCE|unix.MNT_DETACH)
	})
	defer timer.Stop()
	if output, err := command.CombinedOutput(); err != nil || strings.Contains(string(output), "Failure") {
		d.T.Errorf("%q: %v: %s", args[0], err, output)
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
			d := testnode.Install(t)
			installStuck(d)
			volume := d.Mount()
			active, standby := stuckActive(d, volume)
			if err := unix.Kill(active, signal); err != nil {
				t.Fatal(err)
			}
			watch := stopwatch.Start()
			if got := testnode.Read(t, volume, "pod.nodename"); got == "" { // waits until somebody answers
				t.Error("pod.nodename is empty")
			}
			isBack(t, watch)
			if now, _ := d.Pair(); now != standby {
				t.Errorf("process %d is active, want the standby %d", now, standby)
			}
			testnode.Eventually(t, "it has ended, as it was answered", func() bool { return !testnode.Alive(active) && len(testnode.DaemonsOf(d)) == 2 })
		})
	}
}
