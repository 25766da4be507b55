package install

import (
	"fmt"
	"os"
	"path/filepath"
)

// defaultPluginDir is the kubelet's own default (kubernetes v1.34,
// pkg/kubelet/apis/config/v1beta1/defaults.go).
const defaultPluginDir = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"

// knownPluginDirs are what distributions set. They come before the default, which
// a package may have made without anybody using it. docs/deployment.md says
// which.
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
// and says why it is that one. The truth is in the kubelet that runs; where none
// does, in what is there.
func FindPluginDir() (dir, why string, err error) { return findPluginDir("/") }

func findPluginDir(root string) (dir, why string, err error) {
	running, err := kubelets(root)
	if err != nil {
		return "", "", err
	}
	for _, k := range running {
		said, reason, err := k.pluginDir(root)
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
