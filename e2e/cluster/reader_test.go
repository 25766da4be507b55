//go:build cluster

package cluster

import (
	"fmt"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// A reader is a pod that reads its own PID in its volume again and again. The
// driver is asked for each read: nothing of this file is cached.
type reader struct {
	pod
	uid, pid string
}

// runReader starts a reader that ends with the first error, and then stays ended.
func runReader(t *testing.T, name, driver string) reader {
	t.Helper()
	definition := newPod(name, flexVolume(driver),
		"pod-info-fuse", "watch", infoDir+"/pod", "--interval", "5ms", "--exit-on-error")
	definition["spec"].(object)["restartPolicy"] = "Never"
	p := runPod(t, definition)
	return reader{pod: p, uid: p.field(t, ".metadata.uid"), pid: p.hostPID(t)}
}

// lines are what the reader has read since it began.
func (r reader) lines(t *testing.T) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(kubectl(t, "logs", r.name)), "\n")
}

// goesOn waits until the reader has read some more, and checks all that it has
// read.
func (r reader) goesOn(t *testing.T) {
	t.Helper()
	before := len(r.lines(t))
	err := harness.Eventually(startLimit, func() error {
		if now := len(r.lines(t)); now < before+20 {
			return fmt.Errorf("%s had read %d times and has read %d times now", r.name, before, now)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	want := fmt.Sprintf(`Z "%s\n" in `, r.pid)
	for _, line := range r.lines(t) {
		if !strings.Contains(line, want) {
			t.Errorf("%s printed %q, want %q in it", r.name, line, want)
		}
	}
	if r.pod.hostPID(t) != r.pid {
		t.Errorf("%s is another process than before", r.name)
	}
}
