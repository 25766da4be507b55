package survive

import (
	"os"
	"path/filepath"
	"testing"

	"example.com/pod-info-fuse/internal/confine"
)

// Root takes no process for the daemon's but those of the user that it has noted, and those that
// version 0.1.1 has left, which noted its version only.
func TestTheDaemonsUserIsTheOneThatIsNoted(t *testing.T) {
	const group = 4_200_000_001 // user and group of the daemon of version 0.1.1
	for name, row := range map[string]struct {
		notes map[string]string
		want  uint32
	}{
		"no daemon was ever started":       {map[string]string{}, confine.NoUser},
		"the daemon was started":           {map[string]string{"version": "0.1.2", "user": "4200000123"}, 4_200_000_123},
		"the daemon is of version 0.1.1":   {map[string]string{"version": "0.1.1"}, group},
		"a daemon is about to be started":  {map[string]string{"user": "4200000123"}, 4_200_000_123},
		"the note is empty":                {map[string]string{"version": "0.1.2", "user": ""}, confine.NoUser},
		"the note says root":               {map[string]string{"version": "0.1.2", "user": "0"}, confine.NoUser},
		"the note says what is not a user": {map[string]string{"version": "0.1.2", "user": "-1"}, confine.NoUser},
	} {
		dir := t.TempDir()
		for note, text := range row.notes {
			if err := os.WriteFile(filepath.Join(dir, note), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n := Node{Driver: Driver{Program: "pod-info-fuse"}, RunDir: dir}
		if user := n.User(); user != (User{UID: row.want, GID: group}) {
			t.Errorf("%s: %+v, want user %d of group %d", name, user, row.want, group)
		}
	}
}
