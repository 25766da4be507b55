package mount

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/internal/proc"
)

func TestMain(m *testing.M) {
	slowclose.Intercept()
	os.Exit(m.Run())
}

// A process that hangs in execve(2) is told of, and costs those who ask no time.
func TestNamespacesOfWhoExecutes(t *testing.T) {
	f := slowclose.Mount(t)
	cmd := f.Execute(t, "/bin/sleep", "sleep", "3600")
	t.Cleanup(func() {
		f.Answer()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := cmd.Process.Pid
	began := time.Now()
	all, untold, err := Others()
	if err != nil || slices.ContainsFunc(all, func(n Namespace) bool { return n.PID == pid }) {
		t.Errorf("%+v, %v", all, err)
	}
	if !slices.Contains(untold, Namespace{PID: pid}) {
		t.Fatalf("untold: %+v, without process %d", untold, pid)
	}
	if _, err := Of(pid); !errors.Is(err, proc.ErrExecutes) {
		t.Errorf("its namespace: %v", err)
	}
	if _, err := (Namespace{PID: pid}).Open(); !errors.Is(err, proc.ErrExecutes) {
		t.Errorf("open it: %v", err)
	}
	infos, err := Namespace{PID: pid}.Mounts("fuse.slowclose", "slowclose")
	if err != nil || !slices.ContainsFunc(infos, func(info *mountinfo.Info) bool { return info.Mountpoint == f.Dir }) {
		t.Errorf("its mounts: %+v, %v", infos, err)
	}
	if took := time.Since(began); took >= proc.AskTime {
		t.Errorf("took %v", took)
	}
	f.Answer()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if n, err := Of(pid); err == nil && n.own {
			break
		} else if time.Since(began) > time.Minute {
			t.Fatalf("it executes nothing any more: %+v, %v", n, err)
		}
	}
}
