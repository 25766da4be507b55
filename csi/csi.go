// Package csi is a second door to a driver's volumes: a CSI node plugin, for a pod's own volumes
// and for static persistent volumes.
//
// It is thin, and keeps no state. NodePublishVolume executes the call-out mount of the driver
// that is installed on the node, in the host's namespaces, as a kubelet would for a
// FlexVolume, and NodeUnpublishVolume the call-out unmount. So both doors have the same
// records, the same checks, and the same pair of processes that serve, which is always of the
// version that is installed on the host, and has nothing of the plugin's container. The plugin
// may end and begin again at any time: no volume lives in it.
//
// The plugin registers itself with the kubelet (k8s.io/kubelet, pkg/apis/pluginregistration), which
// needs no container beside it. It must be root, in the PID namespace of the host (hostPID). Seven
// capabilities would do: CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE to enter the host's
// namespaces, mount, heal and upgrade; CAP_CHOWN and CAP_FSETID for the run directory; CAP_SETUID
// and CAP_SETGID for the daemon's user. But a call-out, and the daemon after it, also inherits its
// container's rules for devices, its seccomp filter and its AppArmor profile, and may not open
// /dev/fuse. So the container is privileged (docs/deployment.md).
package csi

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"example.com/pod-info-fuse/flex"
)

// Plugin is a node plugin.
type Plugin struct {
	Driver  flex.Name // whose call-outs it executes; its name in CSI is the plugin's
	Version string
	NodeID  string // the node's name
	// KubeletDir is the kubelet's root directory, in the words of the kubelet.
	KubeletDir string
	// Binary is the path of the installed driver on the host, "" for where it is installed
	// for the kubelet, or else below the directory of the plugin's socket.
	Binary string
	// Attributes are the volumeAttributes that the author of a pod, or of a persistent volume, may
	// set, which are passed on as options of mount.
	Attributes []string
	// PolicyAttribute is one of them that an admission policy reads; "" for none. A volume that has
	// it may have attributes for the policy as well, which are not passed on.
	PolicyAttribute string
	// Log writes a line.
	Log func(format string, args ...any)

	mu       sync.Mutex // guards what follows
	found    string     // where the driver was last
	foundAt  time.Time
	called   string // the binary that init was called of last, as [stamp] has it
	calledAt time.Time
}

func (p *Plugin) name() string { return p.Driver.CSI() }

// endpoint is the path of the plugin's socket on the host, and dir its directory.
func (p *Plugin) endpoint() string { return p.Driver.CSISocket(p.KubeletDir) }
func (p *Plugin) dir() string      { return filepath.Dir(p.endpoint()) }

// check returns an error if the kubelet could not use such a plugin.
func (p *Plugin) check() error {
	switch {
	case !filepath.IsAbs(p.KubeletDir) || filepath.Clean(p.KubeletDir) != p.KubeletDir:
		return fmt.Errorf("the kubelet's directory %q is not an absolute path in its shortest form", p.KubeletDir)
	case p.Binary != "" && !filepath.IsAbs(p.Binary):
		return fmt.Errorf("the binary %q is not an absolute path, as the host sees it", p.Binary)
	}
	return nil
}
