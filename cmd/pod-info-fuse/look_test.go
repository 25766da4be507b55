package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// isRepaired checks that the next installer makes all well.
func (d installed) isRepaired(version string) {
	d.t.Helper()
	d.installs(version)
	d.isWhole(version)
	d.must("init")
}

// isWhole checks that the driver's place has a version, and nothing else.
func (d installed) isWhole(version string) {
	d.t.Helper()
	if problem := d.lookAt(contentsOf(d.t, version), false); problem != "" {
		d.t.Error(problem)
	}
	names, err := os.ReadDir(d.pluginDir())
	if len(names) != 1 || err != nil {
		d.t.Errorf("there is more in the plugin directory: %v, %v", names, err)
	}
}

// contentsOf reads files, whose contents a look compares with.
func contentsOf(t *testing.T, paths ...string) (contents []string) {
	t.Helper()
	for _, path := range paths {
		contents = append(contents, read(t, path))
	}
	return contents
}

// watchPlace looks at the driver's place all the time, as a kubelet could, until
// the function that it returns is called, which says what was wrong.
func (d installed) watchPlace(contents []string, mayBeAbsent bool) (end func()) {
	stop, result := make(chan bool), make(chan string)
	go func() {
		looks := 0
		for {
			problem := d.lookAt(contents, mayBeAbsent)
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
		d.t.Helper()
		close(stop)
		if problem := <-result; problem != "" {
			d.t.Error(problem)
		}
	}
}

// lookAt says what is wrong with the driver that a kubelet finds now.
func (d installed) lookAt(contents []string, mayBeAbsent bool) string {
	info, err := os.Lstat(filepath.Dir(d.path))
	if os.IsNotExist(err) && mayBeAbsent {
		return ""
	} else if err != nil {
		return err.Error()
	}
	if info.Mode() != os.ModeDir|0o755 {
		return fmt.Sprintf("the driver's directory has mode %v", info.Mode())
	}
	file, err := os.Open(d.path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Mode() != installedMode {
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
