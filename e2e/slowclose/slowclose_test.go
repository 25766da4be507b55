package slowclose

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Intercept()
	os.Exit(m.Run())
}

// The child is in the kernel until the FLUSH is answered, even if it is killed, and is the other
// program then.
func TestExecute(t *testing.T) {
	for what, row := range map[string]struct {
		kill bool
		want string
	}{"it goes on": {false, "exit status 7"}, "killed": {true, "signal: killed"}} {
		t.Run(what, func(t *testing.T) {
			f := Mount(t)
			cmd := f.Execute(t, "/bin/sh", "sh", "-c", "exit 7")
			if row.kill {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				t.Fatalf("it does not hang: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			f.Answer()
			select {
			case err := <-ended:
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("%v, want %s", err, row.want)
				}
			case <-time.After(hang):
				t.Fatal("it hangs still")
			}
		})
	}
}
