package flex_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/pod-info-fuse/flex"
)

// The binary is this test: with an argument of a call-out it is a driver.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		flex.Main(newDriver, observe)
	}
	os.Exit(m.Run())
}

func newDriver() (flex.Driver, error) {
	fmt.Println("hunter2") // for whom?
	switch os.Getenv("NEW") {
	case "fails":
		return nil, errors.New("no such driver")
	case "panics":
		panic("no driver")
	}
	return &plain{err: errors.New("disk on fire")}, nil
}

// observe writes down what it is told, and then comes to harm.
func observe(o flex.Outcome) {
	note := fmt.Sprintf("%s %q %s", o.CallOut, o.Dir, o.Answer.Status)
	if o.Unsaid != nil {
		note += " unsaid"
	}
	if err := os.WriteFile(os.Getenv("NOTE"), []byte(note), 0o600); err != nil {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	time.Sleep(10 * time.Millisecond) // in which the signal would end the process
	panic("hunter2")
}

func TestObserversHearOfTheCallOutAndCannotSpoilIt(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args []string
		note string
	}{
		{[]string{"mount", "/d", `{"secret":"hunter2"}`}, `mount "/d" Failure`},
		{[]string{"mount", "/d", `{"secret":"hunter2"`}, `mount "/d" Failure`},
		{[]string{"mount"}, `mount "" Failure`},
		{[]string{"unmount", "/d"}, `unmount "/d" Failure`},
		{[]string{"attach", `{"secret":"hunter2"}`, "node"}, `attach "" Not supported`},
		{[]string{"hunt", "/d"}, `hunt "" Not supported`},
	} {
		note := t.TempDir() + "/note"
		command := exec.Command(self, row.args...)
		command.Env = append(os.Environ(), "NOTE="+note)
		output, err := command.CombinedOutput()
		if err != nil || strings.Count(string(output), "\n") != 1 || strings.Contains(string(output), "hunter2") {
			t.Errorf("%q: %v: %s", row.args, err, output)
		}
		if got, _ := os.ReadFile(note); string(got) != row.note {
			t.Errorf("%q: the observer was told %q, want %q", row.args, got, row.note)
		}
	}
}

func TestWithoutADriverACallOutFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for how, message := range map[string]string{"fails": "mount: no such driver", "panics": "mount: internal error: no driver"} {
		note := t.TempDir() + "/note"
		command := exec.Command(self, "mount", "/d", `{"secret":"hunter2"}`)
		command.Env = append(os.Environ(), "NEW="+how, "NOTE="+note)
		output, err := command.CombinedOutput()
		if want := `{"status":"Failure","message":"` + message + `"}` + "\n"; err != nil || string(output) != want {
			t.Errorf("one that %s: %v: %s", how, err, output)
		}
		if got, _ := os.ReadFile(note); string(got) != `mount "/d" Failure` {
			t.Errorf("one that %s: the observer was told %q", how, got)
		}
	}
}

func TestObserversHearOfAnAnswerThatNobodyGets(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	note := t.TempDir() + "/note"
	command := exec.Command(self, "unmount", "/d")
	command.Env, command.Stdout = append(os.Environ(), "NOTE="+note), full
	if err := command.Run(); command.ProcessState == nil || command.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit status 1", err)
	}
	if got, _ := os.ReadFile(note); string(got) != `unmount "/d" Failure unsaid` {
		t.Errorf("the observer was told %q", got)
	}
}
