package command_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// terminal opens a new terminal, as a person has it, and what it shows.
func terminal(t *testing.T) (terminal, shown *os.File) {
	t.Helper()
	shown, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shown.Close() })
	if err := unix.IoctlSetPointerInt(int(shown.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(shown.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, shown
}

// A person who mistypes is told so. The kubelet, which has no terminal, gets the
// protocol's answer, also to call-outs of the future.
func TestAMistypedCommand(t *testing.T) {
	for _, row := range []struct {
		args   []string
		output string // what a person sees
		exit   int
	}{
		{[]string{"stauts"}, `unknown command "stauts"; see pod-info-fuse help`, 2},
		{[]string{"mout", "/dir", "{}"}, `unknown command "mout"`, 2},
		{[]string{"--hlep"}, `unknown command "--hlep"`, 2},
		{[]string{"kubectl"}, `unknown command "kubectl"; see pod-info-fuse help`, 2},
		{[]string{""}, `unknown command ""; see pod-info-fuse help`, 2},
		{[]string{"a\x1b[2J\nb"}, `unknown command "a\x1b[2J\nb"`, 2},
		{[]string{strings.Repeat("status", 10_000)}, "unknown command", 2},
		{[]string{"init"}, `{"status":"Success"`, 0},
		{[]string{"unmount"}, `{"status":"Failure"`, 0},
	} {
		d := testnode.Install(t)
		for _, where := range []string{"stdout", "stderr", "both"} {
			tty, shown := terminal(t)
			command := d.Command(row.args...)
			var other strings.Builder
			command.Stdout, command.Stderr = &other, &other
			if where != "stderr" {
				command.Stdout = tty
			}
			if where != "stdout" {
				command.Stderr = tty
			}
			text := make(chan string, 1)
			go func() { // what is too long for the terminal's buffer must be read
				all, _ := io.ReadAll(shown) // EIO at its end
				text <- string(all)
			}()
			err := command.Run()
			tty.Close()
			seen := <-text + other.String()
			if !strings.Contains(seen, row.output) || command.ProcessState == nil || command.ProcessState.ExitCode() != row.exit {
				t.Errorf("%.50q, with a terminal for %s: %.300q, %v; want %s and exit status %d", row.args, where, seen, err, row.output, row.exit)
			}
			if (row.exit == 2) == strings.Contains(seen, "{") {
				t.Errorf("%.50q, with a terminal for %s: %.300q", row.args, where, seen)
			}
		}
		// The kubelet's view; call checks what it needs.
		if a := d.Call(row.args...); row.exit == 2 && a.Status != "Not supported" {
			t.Errorf("%.50q, without a terminal: %+v", row.args, a)
		}
	}
}

// An attacker who has taken over the daemon can claim any version, and pods' authors choose
// the names of their programs and directories.
func TestNothingOfOthersReachesTheTerminalRaw(t *testing.T) {
	d := testnode.Install(t)
	hostile := testnode.Build(t, "1.2.3\x1b[2J\u009b\rmount  ok\n"+strings.Repeat("x", 100), "")
	d.ReplaceBinary(hostile)
	dir := d.Mount()
	active, standby := d.Pair()
	for _, args := range [][]string{{"status"}, {"upgrade"}} {
		output, err := exec.Command(testnode.Binary, append(args, "--driver", d.Name)...).CombinedOutput()
		if err != nil || !strings.Contains(string(output), `"1.2.3\x1b[2J\u009b\rmount  ok\nxx`) {
			t.Errorf("%q: %v: %q", args, err, output)
		}
		isPlain(t, string(output))
		if args[0] == "status" && !strings.Contains(string(output), fmt.Sprintf("process %d, version", active)) {
			t.Errorf("status does not show %d and %d: %s", active, standby, output)
		}
	}
	d.ReplaceBinary(testnode.Binary)

	// A container with a program and a directory of such names.
	root := filepath.Join(t.TempDir(), "root\x1b]0;x\a\nhealed: all")
	shell := filepath.Join(t.TempDir(), "sh\x1b[2J")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/sh", shell); err != nil {
		t.Fatal(err)
	}
	script := `mount --bind "$1" "$2" && echo ready && exec "$3" -c "echo ready; read end"`
	testnode.Started(t, exec.Command("unshare", "--mount", "sh", "-c", script, "sh", dir, root, shell))
	d.KillPair()
	output, err := d.Command("restore").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "in the container of process") {
		t.Errorf("restore: %v: %q", err, output)
	}
	isPlain(t, string(output))
	if forged := slices.IndexFunc(strings.Split(string(output), "\n"), func(line string) bool { return strings.HasPrefix(line, "healed: all") }); forged >= 0 {
		t.Errorf("restore has a line that is not its own: %q", output)
	}
}

// isPlain checks that there is nothing in a text that a terminal would execute.
func isPlain(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("%q is in %q", r, text)
			return
		}
	}
}

// What status says is in one order, however often it is asked.
func TestStatusShowsProblemsInOneOrder(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	d.Pair()
	d.ReplaceBinary(testnode.Build(t, "exits", "attack"))
	if output, err := d.Command("upgrade").CombinedOutput(); err == nil {
		t.Fatalf("upgrade: %s", output)
	}
	d.ReplaceBinary(testnode.Binary)
	d.StopPair()
	var all sync.WaitGroup
	for range 8 { // each waits for the daemon, for a second
		all.Go(func() {
			output, err := d.Command("status").Output()
			first, second := strings.Index(string(output), "\nupgrade failed "), strings.Index(string(output), "\nproblem ")
			if err != nil || first < 0 || second < first {
				t.Errorf("%v:\n%s", err, output)
			}
		})
	}
	all.Wait()
}
