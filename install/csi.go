package install

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// csiDir is the CSI plugin's directory. Where there is no FlexVolume, the driver is in it.
func (t Target) csiDir() string { return filepath.Dir(t.Driver.CSISocket(t.KubeletDir)) }

// CloseCSI removes the sockets that a CSI plugin of the driver has in the kubelet's directory,
// and its own directory there, once the driver is uninstalled. The plugin may be running: it has
// nothing to do any more, and when its registration socket goes, the kubelet forgets it
// (kubernetes v1.34, pkg/kubelet/pluginmanager/pluginwatcher/plugin_watcher.go).
func (t Target) CloseCSI() error {
	if t.KubeletDir == "" {
		return nil
	}
	t.removeDevices()
	dir := t.csiDir()
	var errs []error
	for _, path := range []string{t.Driver.CSIRegistration(t.KubeletDir), t.Driver.CSISocket(t.KubeletDir), dir} {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// releaseTimeout is how long a kubelet may take to release a persistent volume that it has
// unmounted. It takes a fraction of a second.
const releaseTimeout = 5 * time.Second

// removeDevices removes the directories that a kubelet has for the driver's persistent volumes, as
// soon as it has released them: it asks the plugin a last time, after the volume was unmounted,
// before it removes its file of a volume (kubernetes v1.34, pkg/volume/csi/csi_attacher.go,
// UnmountDevice). One of 1.37 has no such file and leaves the directories, which are empty. A file
// that a kubelet has forgotten, which was restarted in between, stays.
func (t Target) removeDevices() {
	dir := filepath.Join(t.KubeletDir, "plugins/kubernetes.io/csi", t.Driver.CSI())
	for deadline := time.Now().Add(releaseTimeout); ; time.Sleep(50 * time.Millisecond) {
		devices, _ := filepath.Glob(dir + "/*")
		for _, device := range devices {
			_ = unix.Rmdir(filepath.Join(device, "globalmount"))
			_ = unix.Rmdir(device)
		}
		if unix.Rmdir(dir) != unix.ENOTEMPTY || time.Now().After(deadline) {
			return
		}
	}
}

// CloseFlexVolume removes the driver from a plugin directory where the kubelet looks for it,
// which is the target's, and leaves what it has on the node alone: it is installed beside a CSI
// plugin's socket as well. One that stayed would grow old there, and take over again whenever
// the kubelet calls init. As long as FlexVolumes are mounted, which only it can unmount, it
// stays, and inUse is the first of them. A volume whose record is lost may be one.
func (t Target) CloseFlexVolume(node survive.Node) (inUse string, err error) {
	if _, err := os.Lstat(t.Dir()); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	unlock, err := t.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	mounted := func() error {
		volumes := node.Volumes()
		ids, err := volumes.IDs()
		for _, id := range ids {
			r, unread := volumes.Get(id)
			if errors.Is(unread, fs.ErrNotExist) {
				continue // it has just been unmounted
			}
			if node.Inside().Lingers(id) {
				continue
			}
			_, rest, ok := volume.SplitDir(r.Dir)
			if unread != nil || ok && strings.Split(rest, "/")[2] == t.Driver.Dir() {
				inUse = cmp.Or(r.Dir, id.String())
				return errInUse
			}
		}
		if err != nil {
			return err
		}
		lost, err := node.Inside().Unrecorded()
		if lost > 0 {
			inUse = "one whose record is lost"
			return errInUse
		}
		return err
	}
	if err = mounted(); err == nil {
		err = t.remove(mounted)
	}
	if errors.Is(err, errInUse) {
		return inUse, nil
	} else if err != nil {
		err = fmt.Errorf("remove the driver from %s: %w", t.PluginDir, err)
	}
	return "", err
}

var errInUse = errors.New("a FlexVolume is mounted")
