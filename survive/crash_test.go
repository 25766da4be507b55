package survive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/calllog"
)

// A standby of before the upgrade has left a text, and the new process ends: its words are told,
// and the standby's are in the log.
func TestTheLastWordsAreOfTheNewProcess(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	n := daemon{Node{RunDir: t.TempDir(), log: calllog.New("test", log)}}
	before, err := openCrash(n.path("crash"))
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if _, err := before.WriteString("panic: the standby's\n\ngoroutine 1 [running]:\n" + strings.Repeat("main.main()\n", 1000)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ says, want string }{
		{"", "it fails"}, // it was killed
		{"panic: the new one's\n", `it fails; it said "panic: the new one's"`},
	} {
		given, err := n.give(true)
		if err != nil {
			t.Fatal(err)
		}
		defer given.close()
		if _, err := given.Crash.WriteString(row.says); err != nil {
			t.Fatal(err)
		}
		if got := withLastWords(errors.New("it fails"), given.Crash); got.Error() != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
	text, _ := os.ReadFile(log)
	if strings.Count(string(text), `crash: "panic: the standby's"`) != 1 || strings.Contains(string(text), "new one") {
		t.Errorf("the log says %s", text)
	}
}
