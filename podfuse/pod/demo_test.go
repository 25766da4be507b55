package pod_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The demo serves an unprivileged user's volume by either way, and again when it was killed.
func TestDemo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ what, mountpoint string }{{"by its descriptor", "{}"}, {"by fusermount", ""}} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			d := newNode(t).start()
			at := d.at
			if test.mountpoint == "" {
				at, test.mountpoint = d.own(), d.own()
			}
			p := d.launch("run", "--restart", "-o", "ro", "--", filepath.Join(d.serverDir(), "pod-fuse"), "demo", test.mountpoint)
			read := func(name string) string {
				text, _ := os.ReadFile(filepath.Join(at, name))
				return string(text)
			}
			process := regexp.MustCompile(`^\S+ second +0 of process +(\d+)\n`)
			serves := func(not string) (pid string) {
				eventually(t, "another process than "+not+" serves", func() bool {
					found := process.FindStringSubmatch(read("log"))
					if found != nil {
						pid = found[1]
					}
					return found != nil && pid != not
				})
				return pid
			}
			first := serves("")
			if names, err := filepath.Glob(at + "/*"); err != nil || !slices.Equal(names, []string{at + "/README", at + "/clock", at + "/log"}) {
				t.Errorf("has %q, %v", names, err)
			}
			if text := read("README"); !strings.HasPrefix(text, "These files come from a FUSE program") || !strings.HasSuffix(text, "waits.\n") {
				t.Errorf("README is %q", text)
			}
			before := read("clock")
			eventually(t, "the clock goes on", func() bool { return read("clock") > before })
			eventually(t, "the log grows", func() bool { return strings.Count(read("log"), "\n") >= 2 })
			log, err := os.Open(filepath.Join(at, "log"))
			must(t, err)
			defer log.Close()
			lines := strings.SplitAfter(read("log"), "\n")
			part := make([]byte, len(lines[0])) // across the end of a line
			if _, err := log.ReadAt(part, 30); err != nil || string(part) != (lines[0] + lines[1])[30:][:len(part)] {
				t.Errorf("from byte 30 on, the log has %q, %v; it begins with %q", part, err, lines[:2])
			}
			for _, err := range []error{os.WriteFile(filepath.Join(at, "README"), nil, 0), os.Mkdir(filepath.Join(at, "new"), 0o700)} {
				if !errors.Is(err, unix.EROFS) {
					t.Errorf("to change it: %v, want EROFS", err)
				}
			}
			log.Close()
			pid, err := strconv.Atoi(first)
			must(t, err)
			must(t, unix.Kill(pid, unix.SIGKILL))
			serves(first)
			p.signal(unix.SIGTERM)
			p.status()
		})
	}
}
