//go:build e2e

package e2e

import "testing"

// Busybox's cat copies with sendfile(2), which goes through the page cache where
// there is one: each process must still get its own PID and not the one that the
// process before it has read.
func TestCat(t *testing.T) {
	t.Parallel()
	p := runPod(t, newManifest("cat"))
	cat := func() (pid string) {
		// The second file keeps cat running.
		r := p.hold(t, "main", "sh", "-c", `echo $$; exec cat "$0" -`, infoDir+"/pod")
		own, read := r.line(), r.line()
		p.checkReader(t, "main", read, own)
		return read
	}
	if first, second := cat(), cat(); first == second {
		t.Errorf("two processes that run at the same time both read the PID %s", first)
	}
}
