package main_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A standby that has just been born has no lock yet, and finds out for itself that it is
// alone. Where it has no cgroup of its own, nothing leads to it: it is waited for.
func TestNobodyIsLeftWhoWasJustBorn(t *testing.T) {
	slow := build(t, "1.2.3", "slow") // takes its time until it has the lock
	for _, cgroups := range []string{"rw", "ro"} {
		for _, command := range []string{"stop", "uninstall"} {
			t.Run(command+" "+cgroups, func(t *testing.T) {
				t.Parallel() // it waits for seconds
				d := install(t).onNode()
				d.cgroupsBecome(cgroups)
				d.replaceBinary(slow)
				d.mount()
				d.replaceBinary(binary)
				active, born := d.pair()
				eventually(t, "a standby is stopped before it has the lock", func() bool {
					standby := born
					kill(t, standby)
					eventually(t, "another standby is born", func() bool {
						for _, pid := range daemonsOf(d) {
							if number, _ := strconv.Atoi(pid); number != active && number != standby {
								born = number
							}
						}
						return born != standby
					})
					suspend(t, born)
					return d.holder(1) == 0
				})
				kill(t, active)
				timer := time.AfterFunc(1500*time.Millisecond, func() { _ = unix.Kill(born, unix.SIGCONT) })
				defer timer.Stop()
				end := d.command("stop", "--force")
				if command == "uninstall" {
					end = d.installer(binary, "uninstall", "--force")
				}
				if output, err := end.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, output)
				}
				if left := daemonsOf(d); len(left) > 0 {
					t.Errorf("processes %v are left", left)
				}
			})
		}
	}
}

// A daemon that was taken over has a child that has none of its locks. When the daemon has
// died, nothing leads to that one but its cgroup.
func TestNobodyIsLeftOfADaemonThatWasTakenOver(t *testing.T) {
	remains := build(t, "remains", "attack")
	for _, row := range []struct {
		name string
		end  func(installed)
		left int
	}{
		{"stop", func(d installed) { d.ends("stop", "--force") }, 0},
		{"stop after a loss", func(d installed) { d.killPair(); d.ends("stop", "--force") }, 0},
		{"init after a loss", func(d installed) { d.killPair(); d.must("init"); d.pair() }, 2},
		{"upgrade", func(d installed) { d.must("init"); d.pair() }, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := install(t)
			d.replaceBinary(remains)
			d.mount()
			d.pair()
			if !strings.Contains(d.status().Daemon.Cgroup, "pod-info-fuse-") {
				t.Skip("it has no cgroup of its own")
			}
			eventually(t, "it has a child", func() bool { return len(daemonsOf(d)) == 3 })
			d.replaceBinary(binary)
			row.end(d)
			if left := daemonsOf(d); len(left) != row.left {
				t.Errorf("processes %v are left, want %d", left, row.left)
			}
		})
	}
}
