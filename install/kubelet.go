package install

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// kubelet is a running kubelet, as far as its plugin directory is concerned.
type kubelet struct {
	process string // its directory in /proc
	flags   map[string]string
}

// kubelets finds the kubelets that run, below a root directory.
func kubelets(root string) (all []kubelet, err error) {
	processes, err := filepath.Glob(filepath.Join(root, "proc/[0-9]*"))
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		line, err := os.ReadFile(filepath.Join(process, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if args, is := kubeletArgs(strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")); is && privileged(process) {
			all = append(all, kubelet{process, args})
		}
	}
	return all, nil
}

// kubeletArgs reads a command line, if it is a kubelet's. hyperkube is a binary of
// several programs, and has the name of the one to run as its first argument.
func kubeletArgs(line []string) (flags map[string]string, is bool) {
	if filepath.Base(line[0]) == "hyperkube" {
		line = line[1:]
	}
	if len(line) == 0 || filepath.Base(line[0]) != "kubelet" {
		return nil, false
	}
	line = line[1:]
	flags = map[string]string{}
	for i, arg := range line {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !given && i+1 < len(line) {
			value = line[i+1]
		}
		if arg != name && strings.HasPrefix(arg, "-") {
			flags[name] = value
		}
	}
	return flags, true
}

// pluginDir is where the kubelet looks for drivers, and who says so. A flag goes
// before the file (kubernetes v1.34, cmd/kubelet/app/server.go), and a file of
// --config-dir before --config (KEP-3983).
func (k kubelet) pluginDir(root string) (dir, why string, err error) {
	if dir := k.flags["volume-plugin-dir"]; dir != "" {
		return k.path(dir), "--volume-plugin-dir of the kubelet, process " + filepath.Base(k.process), nil
	}
	files, err := k.configFiles(root)
	if err != nil {
		return "", "", err
	}
	for _, file := range files {
		dir, err := pluginDirIn(filepath.Join(root, file))
		if err != nil {
			return "", "", fmt.Errorf("the kubelet's configuration: %w", err)
		}
		if dir != "" {
			return k.path(dir), "volumePluginDir in " + file, nil
		}
	}
	return defaultPluginDir, "the default: the kubelet, process " + filepath.Base(k.process) + ", sets no other", nil
}

// configFiles are the kubelet's configuration files, the most important first.
func (k kubelet) configFiles(root string) (files []string, err error) {
	if dir := k.flags["config-dir"]; dir != "" {
		// The kubelet walks the directory in the same way, and the last file wins.
		err := filepath.WalkDir(filepath.Join(root, k.path(dir)), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Ext(path) == ".conf" {
				files = append(files, "/"+strings.TrimPrefix(strings.TrimPrefix(path, root), "/"))
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("the kubelet's --config-dir: %w", err)
		}
		slices.Reverse(files)
	}
	if file := k.flags["config"]; file != "" {
		files = append(files, k.path(file))
	}
	return files, nil
}

// path resolves a path that the kubelet was given.
func (k kubelet) path(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	directory, err := os.Readlink(filepath.Join(k.process, "cwd"))
	if err != nil {
		directory = "/"
	}
	return filepath.Join(directory, path)
}

// pluginDirIn reads a KubeletConfiguration.
func pluginDirIn(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var configuration struct {
		VolumePluginDir string `yaml:"volumePluginDir"`
	}
	if err := yaml.Unmarshal(content, &configuration); err != nil {
		// Without the lines in question, which have somebody's values in them.
		return "", fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, false))
	}
	return configuration.VolumePluginDir, nil
}
