package calllog

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// forever is how long something may take that happens at once, also on a busy machine.
const forever = time.Minute

func TestFileGetsOneLinePerCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	New("pod-info-fuse", path).Line("mount %q: %s", "/a\nb", "Failure: no\nforged line")
	New("pod-info-fuse", path).Line("unmount")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^20\S+Z pod-info-fuse\[\d+\]: mount "/a\\nb": Failure: no; forged line\n20\S+ pod-info-fuse\[\d+\]: unmount\n$`)
	if !want.Match(data) {
		t.Errorf("log:\n%s", data)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
}

func TestAContainersLogHasALineForEachOfAText(t *testing.T) {
	var log strings.Builder
	Text.Container(&log, "volumes are in use:\n  /a\x1b[1m  shop/web-0\n2026-11-27T00:00:00Z forged")
	want := regexp.MustCompile(`^20\S+Z volumes are in use:\n20\S+Z   /a\?\[1m  shop/web-0\n20\S+Z   2026-11-27T00:00:00Z forged\n$`)
	if !want.MatchString(log.String()) {
		t.Errorf("%q", log.String())
	}
}

func TestLongLinesAreCut(t *testing.T) {
	if got := oneLine(strings.Repeat("ž", 2000)); len(got) > maxLine+3 || !strings.HasSuffix(got, "ž...") {
		t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-6:])
	}
}

func TestSyslogGetsADatagram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	daemon, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	sendTo(t, path, "hello")
	buffer := make([]byte, 100)
	daemon.SetReadDeadline(time.Now().Add(forever))
	want := regexp.MustCompile(`^<30>pod-info-fuse\[\d+\]: hello$`)
	if n, err := daemon.Read(buffer); err != nil || !want.Match(buffer[:n]) {
		t.Errorf("%q, %v", buffer[:n], err)
	}
}

// sendTo writes a line to a syslog daemon at a path of its own.
func sendTo(t *testing.T, path, text string) {
	t.Helper()
	s, err := openSyslog(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.close()
	Log{tag: "pod-info-fuse", sink: s}.Line("%s", text)
}

func TestALogCanBeInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for target, want := range map[string]bool{path: true, "off": false, filepath.Dir(path): false} {
		file, err := New("pod-info-fuse", target).Open()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		Inherit("pod-info-fuse", int(file.Fd())).Line("to %s", target)
		data, err := os.ReadFile(path)
		if got := strings.HasSuffix(string(data), "]: to "+target+"\n"); got != want {
			t.Errorf("log %s: written %v, want %v: %q, %v", target, got, want, data, err)
		}
	}
	Inherit("pod-info-fuse", 1000).Line("there is no such descriptor")
}

func TestALogThatFailsIsSilentAndQuick(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	deaf := filepath.Join(dir, "deaf") // a syslog daemon that reads nothing
	daemon, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: deaf, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	done := make(chan bool)
	go func() {
		New("pod-info-fuse", filepath.Join(dir, "no", "such", "dir")).Line("x")
		New("pod-info-fuse", fifo).Line("x")
		New("pod-info-fuse", dir).Line("x")
		for range 1000 {
			sendTo(t, deaf, "x")
		}
		sendTo(t, filepath.Join(dir, "nobody"), "x")
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(forever):
		t.Fatal("a log line waits")
	}
}

// Whoever collects JSON gets one object a message, whatever is in it.
func TestAContainersLogInJSON(t *testing.T) {
	var log strings.Builder
	format := Text
	if err := format.Set("json"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"volumes are in use:\n  /a\x1b[1m", `a "quoted" one`, "no UTF-8: \xff"} {
		format.Container(&log, text)
	}
	want := []string{"volumes are in use:\n  /a\x1b[1m", `a "quoted" one`, "no UTF-8: ?"}
	for line := range strings.Lines(log.String()) {
		var message struct {
			Time time.Time
			Msg  string
		}
		if err := json.Unmarshal([]byte(line), &message); err != nil || message.Msg != want[0] || time.Since(message.Time) > time.Minute {
			t.Errorf("%q: %v, want %q", line, err, want[0])
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("there is no %q", want)
	}
	if err := format.Set("xml"); err == nil {
		t.Error("xml is a format")
	}
}
