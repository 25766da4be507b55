package survive

import (
	"errors"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/mount"
)

// A container that is being made leaves the node's mounts between two looks of a healing: what
// could not be healed for that is not told. What is still dead is, and so is what nobody has looked
// at again.
func TestWhatCouldNotBeHealedIsToldIfItIsStillThere(t *testing.T) {
	failed := errors.New("no such file or directory")
	healed := func() []Healed {
		return []Healed{
			{Path: "/gone", Err: failed, namespace: "seen"}, {Path: "/dead", Err: failed, namespace: "seen"},
			{Path: "/dead", Err: mount.ErrGone, namespace: "seen"}, {Path: "/unseen", Err: failed, namespace: "unseen"}, {Path: "/healed"},
			{Path: "/own", Err: failed},
		}
	}
	now := []affected{
		{Namespace: mount.Namespace{Name: "seen"}, dead: map[string]stack{"/dead": {}}},
		{Namespace: mount.Own(), err: failed}, // its mounts could not be read
	}
	for all, want := range map[bool]string{true: "/dead /healed", false: "/dead /unseen /healed /own"} {
		var told []string
		for _, h := range withoutGone(healed(), now, all) {
			told = append(told, h.Path)
		}
		if got := strings.Join(told, " "); got != want {
			t.Errorf("where it is %t that all namespaces were seen, it tells of %s, want %s", all, got, want)
		}
	}
}
