package survive_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// Whoever is of the daemon's user can use up what the kernel limits for that. Without hostPID,
// a pod does not find out which user it is: it is another one for each daemon.
func TestTheDaemonsUserIsNotTold(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	before := d.User().Uid
	if active, standby := d.Pair(); statusOf(t, active)["Uid"] != statusOf(t, standby)["Uid"] {
		t.Error("active and standby have different users")
	}
	// All that a pod sees: what the kernel tells in /proc, and of the volume. The control is a
	// process of that user that it does see.
	const looks = `{ stat -c '%u %g' "$2" "$2"/*; find /proc/[a-z]* /proc/[0-9]* -maxdepth 1 -type f ! -path '/proc/k*' ! -name pagemap ! -name mem |
xargs -n 1 timeout 5 cat; } 2>/dev/null | grep -aqw -f "$1" && echo found || echo not found`
	number := filepath.Join(t.TempDir(), "number") // which is on no command line
	testnode.Write(t, number, fmt.Sprintln(before))
	finds := func(before string) string {
		t.Helper()
		pod := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", before+looks, "sh", number, dir)
		output, err := pod.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(output))
	}
	if got := finds(""); got != "not found" {
		t.Errorf("the number of the daemon's user: %s", got)
	}
	if got := finds(`read user < $1; setpriv --reuid $user --regid $user --clear-groups sleep 1000 & sleep 0.2; `); got != "found" {
		t.Errorf("the number of a process that it sees: %s", got)
	}
	if info, err := os.Stat(d.RunDir + "/user"); err != nil || info.Mode() != 0o600 {
		t.Errorf("the note has mode %v, %v", info.Mode(), err)
	}
	d.KillPair()
	d.Must("init")
	if after := d.User().Uid; after == before {
		t.Errorf("the daemon that was started anew has the same user %d", after)
	}
}
