//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// execLimit is how long a command in a container may take to answer: a read that
// hangs must not hang the tests.
const execLimit = time.Minute

// execCommand is a command in one of the pod's containers.
func (p *testPod) execCommand(ctx context.Context, t *testing.T, container string, argv ...string) *exec.Cmd {
	t.Helper()
	return p.node.CtrCommand(ctx, append([]string{
		"tasks", "exec",
		"--exec-id", p.node.newID("exec"),
		"--fifo-dir", filepath.Join(p.node.Dir, "fifos"),
		p.mustContainer(t, container)}, argv...)...)
}

// execScript runs its arguments and stays until its standard input ends. On a
// machine that is busy, containerd's client sometimes loses what a process
// prints that ends at once.
const execScript = `"$0" "$@" 2>&1; echo "exit status $?"; read -r wait`

var execEnd = regexp.MustCompile(`exit status (\d+)\n$`)

// exec runs a command in a container to its end, and returns all that it printed.
func (p *testPod) exec(t *testing.T, container string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), execLimit)
	defer cancel()
	cmd := p.execCommand(ctx, t, container, append([]string{"sh", "-c", execScript}, argv...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out, status := untilEnd(stdout)
	stdin.Close()
	if err := cmd.Wait(); status == "" {
		return out, fmt.Errorf("its output broke off: %v: %s", err, stderr.Bytes())
	}
	if status != "0" {
		return out, fmt.Errorf("exit status %s", status)
	}
	return out, nil
}

// untilEnd reads what execScript prints. It returns what the command printed,
// and its exit status, none if the output broke off.
func untilEnd(stdout io.Reader) (out, status string) {
	var all []byte
	for buffer := make([]byte, 4096); ; {
		n, err := stdout.Read(buffer)
		all = append(all, buffer[:n]...)
		if end := execEnd.FindSubmatchIndex(all); end != nil {
			return string(all[:end[0]]), string(all[end[2]:end[3]])
		}
		if err != nil {
			return string(all), ""
		}
	}
}

// mustExec is exec for a command that has to succeed.
func (p *testPod) mustExec(t *testing.T, container string, argv ...string) string {
	t.Helper()
	out, err := p.exec(t, container, argv...)
	if err != nil {
		t.Fatalf("%s in the container %s of %s: %v: %s", strings.Join(argv, " "), container, p.Metadata.Name, err, out)
	}
	return out
}

// A resident is a process in a container that a test holds: it stays until its
// standard input is closed.
type resident struct {
	t      *testing.T
	stdout *os.File
	lines  *bufio.Reader
}

// hold starts a process that prints lines and then waits for the end of its
// standard input, which comes with the end of the test.
func (p *testPod) hold(t *testing.T, container string, argv ...string) *resident {
	t.Helper()
	// Not the test's context: it ends before the process is asked to.
	cmd := p.execCommand(context.Background(), t, container, argv...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, remote, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = remote, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s in the container %s of %s: %v", strings.Join(argv, " "), container, p.Metadata.Name, err)
	}
	remote.Close()
	t.Cleanup(func() {
		stdin.Close()
		stdout.SetReadDeadline(time.Now().Add(execLimit))
		if _, err := io.Copy(io.Discard, stdout); err != nil {
			t.Errorf("%s stays although its standard input has ended: %v", strings.Join(argv, " "), err)
			cmd.Process.Kill()
		}
		stdout.Close()
		cmd.Wait()
	})
	return &resident{t: t, stdout: stdout, lines: bufio.NewReader(stdout)}
}

// line is the next line that the process prints, without its end.
func (r *resident) line() string {
	r.t.Helper()
	r.stdout.SetReadDeadline(time.Now().Add(execLimit))
	line, err := r.lines.ReadString('\n')
	if err != nil {
		r.t.Fatalf("wait for a line of a process in a container: %v (so far %q)", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}
