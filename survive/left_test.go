package survive_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// A standby that has just been born has no lock yet. Its cgroup leads to it; where it has none of
// its own, nothing does, and it ends by itself.
func TestNobodyIsLeftWhoWasJustBorn(t *testing.T) {
	slow := testnode.Build(t, "1.2.3", "slow") // takes its time until it has the lock
	for _, cgroups := range []string{"rw", "ro"} {
		for _, command := range []string{"stop", "uninstall"} {
			t.Run(command+" "+cgroups, func(t *testing.T) {
				t.Parallel() // it waits for seconds
				d := testnode.Install(t).OnNode()
				cgroupsBecome(d, cgroups)
				d.ReplaceBinary(slow)
				d.Mount()
				d.ReplaceBinary(testnode.Binary)
				active, born := d.Pair()
				testnode.Eventually(t, "a standby is stopped before it has the lock", func() bool {
					standby := born
					testnode.Kill(t, standby)
					testnode.Eventually(t, "another standby is born", func() bool {
						for _, pid := range testnode.DaemonsOf(d) {
							if number, _ := strconv.Atoi(pid); number != active && number != standby {
								born = number
							}
						}
						return born != standby
					})
					testnode.Suspend(t, born)
					return holder(d, 1) == 0
				})
				testnode.Kill(t, active)
				timer := time.AfterFunc(1500*time.Millisecond, func() { _ = unix.Kill(born, unix.SIGCONT) })
				defer timer.Stop()
				end := d.Command("stop", "--force")
				if command == "uninstall" {
					end = d.Installer(testnode.Binary, "uninstall", "--force")
				}
				if output, err := end.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, output)
				}
				if left := testnode.DaemonsOf(d); len(left) > 0 && cgroups == "rw" {
					t.Errorf("processes %v are left", left)
				}
				testnode.Eventually(t, "nobody is left", func() bool { return len(testnode.DaemonsOf(d)) == 0 })
			})
		}
	}
}

// A daemon that was taken over has a child that has none of its locks. When the daemon has
// died, nothing leads to that one but its cgroup.
func TestNobodyIsLeftOfADaemonThatWasTakenOver(t *testing.T) {
	remains := testnode.Build(t, "remains", "attack")
	for _, row := range []struct {
		name string
		end  func(testnode.Driver)
		left int
	}{
		{"stop", func(d testnode.Driver) { ends(d, "stop", "--force") }, 0},
		{"stop after a loss", func(d testnode.Driver) { d.KillPair(); ends(d, "stop", "--force") }, 0},
		{"init after a loss", func(d testnode.Driver) { d.KillPair(); d.Must("init"); d.Pair() }, 2},
		{"upgrade", func(d testnode.Driver) { d.Must("init"); d.Pair() }, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := testnode.Install(t)
			d.ReplaceBinary(remains)
			d.Mount()
			d.Pair()
			if !strings.Contains(d.Status().Daemon.Cgroup, "pod-info-fuse-") {
				t.Skip("it has no cgroup of its own")
			}
			testnode.Eventually(t, "it has a child", func() bool { return len(testnode.DaemonsOf(d)) == 3 })
			d.ReplaceBinary(testnode.Binary)
			row.end(d)
			if left := testnode.DaemonsOf(d); len(left) != row.left {
				t.Errorf("processes %v are left, want %d", left, row.left)
			}
		})
	}
}
