package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Where /proc hides processes of others (hidepid=, man 5 proc), the pair would take a container's
// readers for the host, and they would find an empty directory. Volumes are refused instead, and
// status tells why.
func TestWhereProcHidesReadersVolumesAreRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	first, second := n.volume(podUID, "data"), n.volume(podUID, "more")
	// A /proc of its own: to mount the node's anew would change it for everybody.
	const script = `mount -t proc none /proc && mount --bind /proc/$$ /proc/1 && "$1" mount "$2" "$4" || exit
for hides in 1 2 4; do mount -o remount,hidepid=$hides /proc && "$1" mount "$3" "$4"; "$1" status --driver "$5"; done
"$1" unmount "$2"; mount -o remount,hidepid=0 /proc && "$1" mount "$3" "$4"; "$1" stop --force --driver "$5"`
	node := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", n.path, first, second, options(podUID), n.name)
	output, err := node.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	var answers, troubles []string
	for line := range strings.Lines(string(output)) {
		const why = ", which hides the readers of volumes from the driver"
		switch {
		case strings.Contains(line, `"Success"`):
			answers = append(answers, "yes")
		case strings.Contains(line, `"Failure"`) && strings.Contains(line, why):
			answers = append(answers, "no")
		case strings.Contains(line, "mounter's trouble") && strings.Contains(line, why):
			troubles = append(troubles, line)
		}
	}
	if want := "yes no no no yes yes"; strings.Join(answers, " ") != want || len(troubles) != 3 {
		t.Errorf("%q, want %s, and three times the trouble:\n%s", answers, want, output)
	}
}
