package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// How a program gets its device, and what starts it again.
const (
	byFusermount = "fusermount" // it executes fusermount3, and finds the driver's; podchaos supervise
	byFD         = "fd"         // its mount point is /dev/fd/N, by pod-fuse run
	byRun        = "run"        // as the first, but pod-fuse run starts it again
)

var ways = []string{byFusermount, byFD, byRun}

// A program is a FUSE server, of Debian's packages or the Go module proxy.
type program struct {
	name   string
	source func(s *sources, dir string) error
	// command is its command line in the foreground. What it reads is below source.
	command func(s *sources, source, mountpoint string) []string
	allow   []string // what makes it mount with allow_other, which nobody needs in a pod
	fd      bool     // takes /dev/fd/N
	links   bool     // knows symbolic links
	writes  bool     // makes, renames and removes directories
}

// executable is the file that is executed, as /proc/PID/exe shows it.
func (p program) executable(s *sources) (string, error) {
	path, err := exec.LookPath(p.command(s, "", "")[0])
	if err != nil {
		return "", fmt.Errorf("%s: %w; run e2e/podfuse/setup.sh", p.name, err)
	}
	return filepath.EvalSymlinks(path)
}

var allowOther = []string{"-o", "allow_other"}

var programs = []program{
	{
		name: "bindfs", source: (*sources).plain, allow: allowOther, links: true, writes: true,
		command: func(_ *sources, source, m string) []string {
			return []string{"bindfs", "-f", source + "/tree", m}
		},
	}, {
		name: "sshfs", source: (*sources).plain, allow: allowOther, fd: true, links: true, writes: true,
		command: func(s *sources, _, m string) []string {
			return []string{"sshfs", "-f", "-o", "directport=" + s.sftp.port, "127.0.0.1:" + s.sftp.tree, m}
		},
	}, {
		name: "squashfuse", source: (*sources).squashfs, allow: allowOther, links: true,
		command: func(_ *sources, source, m string) []string {
			return []string{"squashfuse", "-f", source + "/tree.squashfs", m}
		},
	}, {
		name: "squashfuse_ll", source: (*sources).squashfs, allow: allowOther, fd: true, links: true,
		command: func(_ *sources, source, m string) []string {
			return []string{"squashfuse_ll", "-f", source + "/tree.squashfs", m}
		},
	}, {
		// Not -allow_other, with which root's makes directories as whoever asks for them (gocryptfs
		// 2.3): for each, glibc stops all of its threads. When it has just mounted, one of them is
		// polling the mount, and waits for an answer that only the stopped ones could give: it
		// hangs for good. Like a pod's, it checks no permissions.
		name: "gocryptfs", source: (*sources).cipher, allow: []string{"-ko", "allow_other"}, fd: true, links: true, writes: true,
		command: func(_ *sources, source, m string) []string {
			return []string{"gocryptfs", "-fg", "-q", "-passfile", source + "/password", source + "/cipher", m}
		},
	}, {
		name: "s3fs", source: (*sources).bucket, allow: allowOther,
		command: func(s *sources, source, m string) []string {
			return []string{"s3fs", "bucket", m, "-f", "-o", "url=http://" + s.s3.address,
				"-o", "use_path_request_style", "-o", "umask=0022", "-o", "passwd_file=" + source + "/password"}
		},
	}, {
		name: "rclone", source: (*sources).plain, allow: []string{"--allow-other"},
		command: func(s *sources, source, m string) []string {
			return []string{s.modules + "/rclone", "mount", ":local:" + source + "/tree", m, "--config", "", "--links=false"}
		},
	}, {
		name: "gcsfuse", source: (*sources).object, allow: allowOther, fd: true,
		command: func(s *sources, _, m string) []string {
			return []string{s.modules + "/gcsfuse", "--foreground", "--custom-endpoint", "http://" + s.gcs.address + "/storage/v1/",
				"--anonymous-access", "--implicit-dirs", "--enable-hns=false", "bucket", m}
		},
	}, {
		name: "loopback", source: (*sources).plain, allow: []string{"-allow-other"}, fd: true, links: true, writes: true,
		command: func(s *sources, source, m string) []string {
			return []string{s.modules + "/loopback", m, source + "/tree"}
		},
	}, {
		name: "unionfs", source: (*sources).plain, allow: allowOther, links: true, writes: true,
		command: func(_ *sources, source, m string) []string {
			return []string{"unionfs", "-f", source + "/tree=RW", m}
		},
	}, {
		name: "archivemount", source: (*sources).tar, allow: allowOther, links: true,
		command: func(_ *sources, source, m string) []string {
			return []string{"archivemount", "-f", "-o", "readonly", source + "/tree.tar", m}
		},
	}, {
		name: "fuse-zip", source: (*sources).zip, allow: allowOther,
		command: func(_ *sources, source, m string) []string {
			return []string{"fuse-zip", "-f", "-r", source + "/tree.zip", m}
		},
	}, {
		name: "mergerfs", source: (*sources).plain, allow: allowOther, links: true, writes: true,
		command: func(_ *sources, source, m string) []string {
			return []string{"mergerfs", "-f", source + "/tree", m}
		},
	}, {
		// It changes nothing: killed while it removes a directory, 8 times in 1500 it left one that
		// can neither be seen nor renamed to, for good. Root had mounted it, without pod-fuse
		// (fuse-overlayfs 1.10).
		name: "fuse-overlayfs", source: (*sources).overlay, allow: allowOther, fd: true, links: true,
		command: func(_ *sources, source, m string) []string {
			return []string{"fuse-overlayfs", "-f", "-o", fmt.Sprintf("lowerdir=%s/tree,upperdir=%[1]s/upper,workdir=%[1]s/work", source), m}
		},
	},
}

// commandLine is what is executed: the program's own words, with what allows others first.
func (p program) commandLine(s *sources, source, mountpoint string, allow bool) []string {
	line := p.command(s, source, mountpoint)
	if !allow {
		return line
	}
	at := 1
	if p.name == "rclone" {
		at = 2 // after its verb
	}
	return append(append(append([]string(nil), line[:at]...), p.allow...), line[at:]...)
}
