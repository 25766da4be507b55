package survive_test

import (
	"net"
	"os"
	"regexp"
	"testing"
	"time"

	"example.com/pod-info-fuse/internal/testnode"
)

// syslogd is a syslog daemon of the driver's node.
type syslogd struct {
	t      *testing.T
	socket *net.UnixConn
	path   string
}

// withoutSyslog gives the driver's node a /dev of its own, where nobody listens.
func withoutSyslog(d testnode.Driver) {
	d.T.Helper()
	d.OnItsNode(`mount -t tmpfs none "$1" && for file in null zero fuse random urandom; do touch "$1/$file" && mount --bind /dev/$file "$1/$file" || exit; done
		mount --rbind "$1" /dev`, d.T.TempDir())
}

// startSyslog starts one, as on a node where it was updated.
func startSyslog(d testnode.Driver) *syslogd {
	d.T.Helper()
	path := "/proc/" + d.On[2] + "/root/dev/log" // of nsenter's target
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		d.T.Fatal(err)
	}
	s := &syslogd{d.T, socket, path}
	d.T.Cleanup(s.stop)
	return s
}

func (s *syslogd) stop() {
	s.socket.Close()
	os.Remove(s.path)
}

// gets waits for a line, and returns those until then.
func (s *syslogd) gets(pattern string) (lines []string) {
	s.t.Helper()
	for buffer := make([]byte, 2000); ; {
		s.socket.SetReadDeadline(time.Now().Add(testnode.Forever))
		n, err := s.socket.Read(buffer)
		if err != nil {
			s.t.Fatalf("%s does not arrive, but %q: %v", pattern, lines, err)
		}
		lines = append(lines, string(buffer[:n]))
		if regexp.MustCompile(pattern).Match(buffer[:n]) {
			return lines
		}
	}
}

// The daemon may not connect to any socket. A call-out, as root, connects the log of both its
// processes.
func TestASyslogThatIsRestartedHearsTheDaemon(t *testing.T) {
	d := testnode.Install(t).OnNode()
	withoutSyslog(d)
	d.Mount()
	d.Pair()
	before := startSyslog(d)
	d.Status()
	before.gets(`serves \(start`) // was kept
	active, _ := d.Pair()
	before.stop()
	testnode.Kill(t, active)
	after := startSyslog(d)
	d.Must("init")
	after.gets(`serves \(crash`)
	active, _ = d.Pair()
	testnode.Kill(t, active) // the standby has the same log
	after.gets(`serves \(crash`)
}
