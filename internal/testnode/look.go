package testnode

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// IsRepaired checks that the next installer makes all well.
func (d Driver) IsRepaired(version string) {
	d.T.Helper()
	d.Installs(version)
	d.IsWhole(version)
	d.Must("init")
}

// IsWhole checks that the driver's place has a version, and nothing else.
func (d Driver) IsWhole(version string) {
	d.T.Helper()
	if problem := d.LookAt(ContentsOf(d.T, version), false); problem != "" {
		d.T.Error(problem)
	}
	names, err := os.ReadDir(d.PluginDir())
	if len(names) != 1 || err != nil {
		d.T.Errorf("there is more in the plugin directory: %v, %v", names, err)
	}
}

// ContentsOf reads files, whose contents a look compares with.
func ContentsOf(t *testing.T, paths ...string) (contents []string) {
	t.Helper()
	for _, path := range paths {
		contents = append(contents, Read(t, path))
	}
	return contents
}

// WatchPlace looks at the driver's place all the time, as a kubelet could, until
// the function that it returns is called, which says what was wrong.
func (d Driver) WatchPlace(contents []string, mayBeAbsent bool) (end func()) {
	stop, result := make(chan bool), make(chan string)
	go func() {
		looks := 0
		for {
			problem := d.LookAt(contents, mayBeAbsent)
			if looks++; problem != "" {
				result <- fmt.Sprintf("look %d: %s", looks, problem)
				return
			}
			select {
			case <-stop:
				result <- ""
				return
			case <-time.After(time.Millisecond): // for the installer
			}
		}
	}()
	return func() {
		d.T.Helper()
		close(stop)
		if problem := <-result; problem != "" {
			d.T.Error(problem)
		}
	}
}

// LookAt says what is wrong with the driver that a kubelet finds now.
func (d Driver) LookAt(contents []string, mayBeAbsent bool) string {
	info, err := os.Lstat(filepath.Dir(d.Path))
	if os.IsNotExist(err) && mayBeAbsent {
		return ""
	} else if err != nil {
		return err.Error()
	}
	if info.Mode() != os.ModeDir|0o755 {
		return fmt.Sprintf("the driver's directory has mode %v", info.Mode())
	}
	file, err := os.Open(d.Path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Mode() != InstalledMode {
		return fmt.Sprintf("the driver has mode %v, %v", info.Mode(), err)
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	for _, whole := range contents {
		if string(content) == whole {
			return ""
		}
	}
	return fmt.Sprintf("the driver has %d bytes of no version, %v", len(content), err)
}
