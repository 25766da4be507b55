package install

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"example.com/pod-info-fuse/internal/proc"
)

// defaultPluginDir is the kubelet's own default (kubernetes v1.34,
// pkg/kubelet/apis/config/v1beta1/defaults.go).
const defaultPluginDir = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"

// knownPluginDirs are the directories that distributions set; docs/deployment.md says which.
// They come before the default, which a package may have made although nothing uses it.
var knownPluginDirs = [...]string{
	"/home/kubernetes/flexvolume",
	"/etc/kubernetes/volumeplugins",
	"/etc/kubernetes/kubelet-plugins/volume/exec",
	"/opt/libexec/kubernetes/kubelet-plugins/volume/exec",
	"/var/lib/kubelet/volumeplugins",
	"/usr/libexec/k0s/kubelet-plugins/volume/exec",
	"/var/lib/kubelet/plugins/volume/exec",
}

// FindPluginDir finds the directory where the node's kubelet looks for drivers,
// and says why it is that one. A kubelet that runs decides; where none does, the first known
// directory that exists.
func FindPluginDir() (dir, why string, err error) { return findPluginDir("/") }

func findPluginDir(root string) (dir, why string, err error) {
	for _, k := range kubelets(root) {
		said, reason, err := k.pluginDir(root)
		if err == nil && !filepath.IsAbs(said) {
			err = fmt.Errorf("the kubelet's is relative, %q", said)
		}
		if err != nil {
			return "", "", fmt.Errorf("find the plugin directory: %w; say it with --plugin-dir", err)
		}
		if dir != "" && said != dir {
			return "", "", fmt.Errorf("there are several kubelets, with the plugin directories %s and %s; say with --plugin-dir which one it shall be", dir, said)
		}
		dir, why = said, reason
	}
	if dir != "" {
		return dir, why, nil
	}
	for _, known := range knownPluginDirs {
		if info, err := os.Stat(filepath.Join(root, known)); err == nil && info.IsDir() {
			return known, "no kubelet is running, and this directory is there", nil
		}
	}
	return defaultPluginDir, "the default: no kubelet is running, and none of the known directories is there", nil
}

// kubelet is a running kubelet, as far as its plugin directory is concerned.
type kubelet struct {
	process string // its directory in /proc
	flags   map[string]string
}

// kubelets finds the kubelets that run, below a root directory.
func kubelets(root string) (all []kubelet) {
	processes, _ := filepath.Glob(filepath.Join(root, "proc/[0-9]*"))
	for _, dir := range processes {
		// First: a process that hangs with its memory's lock keeps who reads its command line
		// waiting for ever, and a pod can have such a one. Its status, the kernel tells without.
		if !canBeKubelet(dir) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if args, is := kubeletArgs(strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")); is {
			all = append(all, kubelet{dir, args})
		}
	}
	return all
}

// pid is the process's id, as text.
func (k kubelet) pid() string { return filepath.Base(k.process) }

// kubeletArgs reads a command line, if it is a kubelet's.
func kubeletArgs(line []string) (flags map[string]string, is bool) {
	if filepath.Base(line[0]) != "kubelet" {
		return nil, false
	}
	line = line[1:]
	flags = map[string]string{}
	for i, arg := range line {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !given && i+1 < len(line) {
			value = line[i+1]
		}
		if strings.HasPrefix(arg, "-") {
			flags[name] = value
		}
	}
	return flags, true
}

// pluginDir is where the kubelet looks for drivers, and which setting says so. A flag goes
// before the file (kubernetes v1.34, cmd/kubelet/app/server.go), and a file of --config-dir
// before --config (KEP-3983).
func (k kubelet) pluginDir(root string) (dir, why string, err error) {
	if dir := k.flags["volume-plugin-dir"]; dir != "" {
		return filepath.Clean(dir), "--volume-plugin-dir of the kubelet, process " + k.pid(), nil
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
			return filepath.Clean(dir), "volumePluginDir in " + file, nil
		}
	}
	return defaultPluginDir, "the default: the kubelet, process " + k.pid() + ", sets no other", nil
}

// configFiles are the kubelet's configuration files, the most important first.
func (k kubelet) configFiles(root string) (files []string, err error) {
	if dir := k.flags["config-dir"]; dir != "" {
		// The kubelet walks the directory in the same way, and the last file wins.
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
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
		files = append(files, file)
	}
	return files, nil
}

// pluginDirIn reads a KubeletConfiguration.
func pluginDirIn(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var configuration struct {
		VolumePluginDir string `json:"volumePluginDir"`
	}
	if err := yaml.Unmarshal(content, &configuration); err != nil {
		return "", fmt.Errorf("%s: %w", path, err) // of a line, and without its values, which may be confidential
	}
	return configuration.VolumePluginDir, nil
}

// Any pod can have a process that calls itself kubelet, and an installer with hostPID
// sees it. It must neither say where drivers are, nor keep us waiting.

// canBeKubelet tells whether a process may mount, and is in the PID namespace that /proc is of, the
// node's: a kubelet must, and is. In a user namespace of its own, root of a pod may mount as well,
// but is not there. Of pods, only one with hostPID is, for which it must be allowed to do anything,
// and it gains nothing by a lie. dir is /proc/PID.
func canBeKubelet(dir string) bool {
	status, err := proc.StatusIn(dir)
	if err != nil || strings.Join(strings.Fields(status["Uid"]), " ") != "0 0 0 0" || len(status.NSpid()) > 1 {
		return false
	}
	capabilities, err := status.Mask("CapEff")
	return err == nil && capabilities&(1<<unix.CAP_SYS_ADMIN) != 0
}
