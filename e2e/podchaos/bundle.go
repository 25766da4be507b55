package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// The parts of an OCI bundle that matter here (github.com/opencontainers/runtime-spec, config.md).
type (
	bundleMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type,omitempty"`
		Source      string   `json:"source,omitempty"`
		Options     []string `json:"options,omitempty"`
	}
	object = map[string]any
)

// volumeMount is a volume of a pod in one of its containers, as in the pod's manifest.
type volumeMount struct {
	source   string // on the host
	path     string
	subPath  string
	readOnly bool
	// propagated is mountPropagation: HostToContainer.
	propagated bool
}

// The machine's own programs are the image, read-only.
var image = []bundleMount{
	{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
	{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "strictatime", "mode=755", "size=64k"}},
	{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
	{"/dev/shm", "tmpfs", "shm", []string{"nosuid", "noexec", "nodev", "mode=1777", "size=64m"}},
	{"/sys", "sysfs", "sysfs", []string{"nosuid", "noexec", "nodev", "ro"}},
	{"/tmp", "tmpfs", "tmpfs", []string{"nosuid", "nodev", "mode=1777", "size=64m"}},
	{"/usr", "bind", "/usr", []string{"rbind", "rprivate", "ro"}},
	{"/etc", "bind", "/etc", []string{"rbind", "rprivate", "ro"}},
}

// mountpoint is where a program mounts by fusermount: the container's root is read-only.
const mountpoint = "/run/pod-fuse/mnt"

// denied are system calls that container runtimes deny by default to containers without more
// capabilities than the default ones (github.com/moby/profiles/seccomp): those that a FUSE program
// would want in vain.
var denied = []string{
	"mount", "umount2", "pivot_root", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount",
	"fspick", "mount_setattr", "unshare", "setns", "bpf", "perf_event_open", "keyctl", "add_key",
	"request_key", "userfaultfd", "open_by_handle_at", "process_vm_readv", "process_vm_writev",
	"kcmp", "io_uring_setup", "io_uring_enter", "io_uring_register", "init_module", "reboot", "swapon",
}

// capabilities are containerd's by default. An ordinary user's process has none of them.
var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// writeBundle makes a container's bundle: a root that is read-only, as the machine's own programs
// are in it, and namespaces of its own, but for the network, which is the pod's.
func writeBundle(dir, cgroup string, uid int, args []string, volumes []volumeMount) error {
	root := filepath.Join(dir, "rootfs")
	mounts := slices.Clone(image)
	for _, v := range volumes {
		options := []string{"rbind", "rprivate", "rw"}
		if v.readOnly {
			options[2] = "ro"
		}
		if v.propagated {
			options[1] = "rslave"
		}
		mounts = append(mounts, bundleMount{v.path, "bind", v.source, options})
	}
	effective := capabilities
	if uid != 0 {
		effective = []string{}
	}
	config := object{
		"ociVersion": "1.0.2",
		"process": object{
			"args": args, "cwd": "/",
			"env":          []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LANG=C.UTF-8"},
			"user":         object{"uid": uid, "gid": uid},
			"capabilities": object{"bounding": capabilities, "effective": effective, "permitted": effective},
		},
		"root":     object{"path": "rootfs", "readonly": true},
		"hostname": "pod",
		"mounts":   mounts,
		"linux": object{
			"cgroupsPath":   cgroup,
			"namespaces":    []object{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "cgroup"}},
			"maskedPaths":   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			"seccomp": object{
				"defaultAction": "SCMP_ACT_ALLOW", // on this machine's architecture
				"syscalls":      []object{{"names": denied, "action": "SCMP_ACT_ERRNO", "errnoRet": 1}},
			},
		},
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	err = os.MkdirAll(root, 0o755)
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		err = errors.Join(err, os.Symlink("usr/"+name, filepath.Join(root, name)))
	}
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
}
