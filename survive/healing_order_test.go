package survive_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/testnode"
)

// Somebody has many namespaces full of dead mounts, and locks them all.
func TestManyLockedNamespacesDoNotKeepAnotherFromBeingHealed(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	const lock = `mount -t tmpfs none "$1" && for i in 1 2 3 4; do mkdir "$1/$i" && mount --bind "$2" "$1/$i" || exit; done &&
exec 9< /proc/self/ns/mnt && flock 9 && echo ready && read line`
	root := t.TempDir()
	for range 60 {
		testnode.Started(t, exec.Command("unshare", "--mount", "sh", "-c", lock, "sh", root, dir))
	}
	container := startContainer(t, dir)
	d.KillPair()
	watch := stopwatch.Start()
	said, err := d.Command("restore").CombinedOutput()
	// It waits twenty seconds for all namespaces together.
	if took, late := watch.Stop(); took > 10*time.Second {
		t.Errorf("restore took %v, and %v in which the machine was late", took, late)
	}
	if got := container.read("volume/pod.uid"); got != testnode.PodUID {
		t.Errorf("in another container: %q", got)
	}
	if err == nil || strings.Count(string(said), "(and 4 more there): another healing of its namespace goes on") != 60 {
		t.Errorf("restore: %v: %s", err, said)
	}
}

// Somebody has more mounts than are looked at: that is told, and keeps no other from being healed.
func TestANamespaceWithTooManyMountsIsTold(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	const many = `mount -t tmpfs none "$1" && mkdir -p "$1/$2" "$1/again" && mount -t tmpfs none "$1/$2" &&
for doubled in 1 2 3 4 5 6 7 8 9 10 11 12 13; do mount --rbind "$1" "$1/again" || exit; done && echo ready && read line`
	testnode.Started(t, exec.Command("unshare", "--mount", "sh", "-c", many, "sh", t.TempDir(), strings.Repeat(strings.Repeat("x", 255)+"/", 14)))
	container := startContainer(t, dir)
	d.KillPair()
	said, err := d.Command("restore").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "the container has too many mounts; start it anew with fewer") {
		t.Errorf("restore: %v: %s", err, said)
	}
	if got := container.read("volume/pod.uid"); got != testnode.PodUID {
		t.Errorf("in another container: %q", got)
	}
	if said, err := d.Command("restore").CombinedOutput(); err != nil || strings.Contains(string(said), "healed") {
		t.Errorf("once more: %v: %s", err, said)
	}
}
