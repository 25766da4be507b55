package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Neighbours looks at the other drivers of the plugin directory, and says of each
// that the kubelet cannot execute why not. Such a driver is another's business, but
// can keep ours from being found: kubelets before 1.12 gave up on all of them at
// the first that failed (kubernetes issues 60694 and 68070).
func (t Target) Neighbours() (problems map[string]string, err error) {
	entries, err := os.ReadDir(t.PluginDir)
	if err != nil {
		return nil, err
	}
	problems = map[string]string{}
	for _, entry := range entries {
		// The kubelet looks at the same entries (pkg/volume/flexvolume/probe.go).
		if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || entry.Name() == t.Driver.Dir() {
			continue
		}
		if problem := brokenDriver(filepath.Join(t.PluginDir, entry.Name())); problem != "" {
			problems[entry.Name()] = problem
		}
	}
	return problems, nil
}

// brokenDriver says why the kubelet cannot execute what is in a driver's
// directory, "" if it can.
func brokenDriver(dir string) string {
	name := filepath.Base(dir)
	name = name[strings.LastIndex(name, "~")+1:]
	info, err := os.Stat(filepath.Join(dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("it has no file %s", name)
	case err != nil:
		return err.Error()
	case !info.Mode().IsRegular():
		return fmt.Sprintf("%s is not a regular file", name)
	case info.Mode()&0o111 == 0:
		return fmt.Sprintf("%s is not executable", name)
	case info.Size() == 0:
		return fmt.Sprintf("%s is empty", name)
	}
	return ""
}
