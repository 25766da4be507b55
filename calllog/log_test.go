package calllog

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFileGetsOneLinePerCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	New(path).Line("mount %q: %s", "/a\nb", "Failure: no\nforged line")
	New(path).Line("unmount")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^20\S+ pod-info-fuse\[\d+\]: mount "/a\\nb": Failure: no\?forged line\n20\S+ pod-info-fuse\[\d+\]: unmount\n$`)
	if !want.Match(data) {
		t.Errorf("log:\n%s", data)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
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
	sendSyslog(path, "<30>hello")
	buffer := make([]byte, 100)
	daemon.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := daemon.Read(buffer); err != nil || string(buffer[:n]) != "<30>hello" {
		t.Errorf("%q, %v", buffer[:n], err)
	}
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
		New(filepath.Join(dir, "no", "such", "dir")).Line("x")
		New(fifo).Line("x")
		New(dir).Line("x")
		for range 1000 {
			sendSyslog(deaf, "x")
		}
		sendSyslog(filepath.Join(dir, "nobody"), "x")
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a log line waits")
	}
}
