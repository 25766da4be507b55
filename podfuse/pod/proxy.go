package pod

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
)

// IsProxy tells whether a process with this argv[0] is to be fusermount.
func IsProxy(name string) bool { return slices.Contains(wire.Proxies, filepath.Base(name)) }

const proxyUsage = `%s: [options] mountpoint
Options:
 -h                 print help
 -V                 print version
 -o opt[,opt...]    mount options
 -u                 unmount
 -q                 quiet
 -z                 lazy unmount
This is a part of pod-fuse: it has the driver on this node mount.
`

// Proxy does what a FUSE library executes fusermount3(1) for: it has the driver mount, and sends
// the descriptor of /dev/fuse by the socket that the library has given it. Exit status and
// streams are fusermount3's: 0, or 1 and a line on stderr.
func Proxy(name string, args []string) int {
	name = filepath.Base(name)
	p, err := parseProxy(args)
	if err == nil {
		switch {
		case p.help:
			fmt.Printf(proxyUsage, name)
			return 1
		case p.version:
			fmt.Printf("%s version: %s %s\n", name, program, Version)
			return 0
		case p.unmount:
			err = p.doUnmount(name)
		default:
			err = p.doMount(name)
		}
	}
	if err != nil {
		if !p.quiet {
			complain(name, "%v", err)
		}
		return 1
	}
	return 0
}

// proxy is fusermount3's command line.
type proxy struct {
	help, version, unmount, quiet bool

	options  string
	commFD   string
	mountDir string
}

func parseProxy(args []string) (p proxy, err error) {
	var lazy bool
	var options []string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVarP(&p.help, "help", "h", false, "")
	flags.BoolVarP(&p.version, "version", "V", false, "")
	flags.BoolVarP(&p.unmount, "unmount", "u", false, "")
	flags.BoolVarP(&p.quiet, "quiet", "q", false, "")
	flags.BoolVarP(&lazy, "lazy", "z", false, "") // every unmount is lazy
	flags.StringArrayVarP(&options, "options", "o", nil, "")
	flags.StringVar(&p.commFD, "comm-fd", os.Getenv("_FUSE_COMMFD"), "")
	// Two options are unknown, and libraries go on without: --auto-unmount, for a program that has
	// mounted by itself, with privilege, and --sync-init, by which libfuse 3.19 wants the
	// descriptor before it is mounted.
	if err := flags.Parse(args); err != nil || p.help || p.version {
		return p, err
	}
	// Some Go libraries give each option a -o of its own.
	p.options = strings.Join(options, ",")
	switch {
	case lazy && !p.unmount:
		return p, errors.New("-z can only be used with -u")
	case flags.NArg() == 0:
		return p, errors.New("missing mountpoint argument")
	case flags.NArg() > 1:
		return p, errors.New("extra arguments after the mountpoint")
	}
	p.mountDir, err = resolve(flags.Arg(0))
	return p, err
}

// resolve returns the absolute path of a mount point, with no link in it but the last name,
// which is not looked at: to unmount, it may be that of a dead mount.
func resolve(path string) (string, error) {
	failed := func(err error) (string, error) { return "", fmt.Errorf("bad mount point %s: %w", path, err) }
	if path == "" {
		return failed(unix.ENOENT)
	}
	if strings.HasPrefix(path, "/dev/fd/") || path == "/dev/fuse" { // which realpath(3) makes of it
		return failed(errors.New("this program does not know that /dev/fd/N means a descriptor; name a directory in the place of {}"))
	}
	absolute := path // and not cleaned: .. is the parent of what a link leads to
	if !filepath.IsAbs(path) {
		cwd, err := os.Getwd()
		if err != nil {
			return failed(err)
		}
		absolute = cwd + "/" + path
	}
	parent, name := filepath.Split(strings.TrimRight(absolute, "/"))
	parent, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return failed(err)
	}
	return filepath.Join(parent, name), nil // name may be .., and parent has no link
}

func (p proxy) doUnmount(name string) error {
	s, err := findServer()
	if err == nil {
		_, _, err = s.ask(wire.Request{Kind: wire.Unmount, Mountpoint: p.mountDir}, unmountTimeout, p.say(name))
	}
	if err != nil {
		return fmt.Errorf("failed to unmount %s: %w", p.mountDir, err)
	}
	return nil
}

func (p proxy) doMount(name string) error {
	options, warnings, err := parseOptions(p.options)
	if err != nil {
		return err
	}
	socket, err := p.socket()
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		p.say(name)("%s", warning)
	}
	s, err := findServer()
	if err != nil {
		return fmt.Errorf("mount failed: %w", err)
	}
	answer, device, err := s.ask(wire.Request{Kind: wire.Serve, Options: options, Mountpoint: p.mountDir}, askTimeout, p.say(name))
	if err != nil {
		return fmt.Errorf("mount failed: %w", err)
	}
	if answer.Notice != "" {
		p.say(name)("%s", answer.Notice)
	}
	// Nobody else has the descriptor: if the program never gets it, the driver unmounts.
	defer device.Close()
	if err := unix.Sendmsg(socket, []byte{0}, unix.UnixRights(int(device.Fd())), nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("sending file descriptor: %w", err)
	}
	return nil
}

// socket returns the socket by which the library wants the descriptor.
func (p proxy) socket() (int, error) {
	if p.commFD == "" {
		return -1, errors.New("old style mounting not supported: _FUSE_COMMFD names no socket; a FUSE library executes this program, and not a person")
	}
	fd, err := strconv.ParseUint(p.commFD, 10, 31)
	if err != nil {
		return -1, fmt.Errorf("invalid _FUSE_COMMFD: %s", p.commFD)
	}
	if _, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return -1, fmt.Errorf("file descriptor %d is not a socket, can't send fuse fd: %w", fd, err)
	}
	return int(fd), nil
}

func (p proxy) say(name string) func(format string, args ...any) {
	return func(format string, args ...any) {
		if !p.quiet {
			complain(name, format, args...)
		}
	}
}
