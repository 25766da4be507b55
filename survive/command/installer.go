package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/cli"
	"example.com/pod-info-fuse/survive/internal/metrics"
)

// installer is the common part of install and uninstall: the driver's place, and whether to
// watch it.
type installer struct {
	program         Program
	set             *pflag.FlagSet
	driver          *string
	root, pluginDir string

	watch    bool
	interval time.Duration
	listen   string
	format   calllog.Format

	binary *os.File // of this process
}

func (p Program) installer(set *pflag.FlagSet) *installer {
	i := &installer{program: p, set: set, driver: p.driverFlag(set), format: calllog.Text}
	set.StringVar(&i.pluginDir, "plugin-dir", "", "the kubelet's plugin `DIR`; without it, what the running kubelet says, a directory that a distribution is known to use, or the default")
	set.StringVar(&i.root, "root", "", "`DIR` where a container has the host's root directory; other paths are as the host sees them")
	set.BoolVar(&i.watch, "watch", false, "stay, look at the node again and again and do what is due, until SIGTERM")
	set.DurationVar(&i.interval, "interval", 2*time.Second, "with --watch: `TIME` between two looks")
	set.StringVar(&i.listen, "listen", "", "with --watch: `ADDRESS` to serve /healthz, /readyz and /metrics on, such as :9808")
	set.Var(&i.format, "log-format", "of what is done: text, or json for an object a message")
	return i
}

// begin checks the flags, and opens the binary: below another root directory, its path is
// another one.
func (i *installer) begin() (err error) {
	for _, name := range []string{"plugin-dir", "root"} {
		if f := i.set.Lookup(name); f.Changed && f.Value.String() == "" { // of a variable that is not set
			return cli.Usage(fmt.Errorf("--%s is empty", name))
		}
	}
	switch {
	case !i.watch && (i.set.Changed("interval") || i.set.Changed("listen")):
		return cli.Usage(errors.New("--interval and --listen go with --watch"))
	case i.interval <= 0:
		return cli.Usage(fmt.Errorf("--interval is %v; it must be more than 0", i.interval))
	}
	i.binary, err = os.Open("/proc/self/exe")
	return err
}

// enter changes into the host's root directory, and returns the driver's place in it, and
// why it is that one.
func (i *installer) enter() (target install.Target, why string, err error) {
	if target.Driver, err = i.program.driverName(*i.driver); err != nil {
		return target, "", err
	}
	if i.root != "" {
		if err := changeRoot(i.root); err != nil {
			return target, "", err
		}
	}
	target.Program = i.program.Program
	target.Contained = i.root != ""
	target.CheckConfig = func(content []byte) error {
		_, err := i.program.settings(content)
		return err
	}
	if i.program.Withdraw != nil {
		target.Withdraw = func(dir string) error {
			settings, err := i.program.settingsIn(dir)
			if err != nil {
				return err
			}
			return i.program.Withdraw(target.Driver, settings)
		}
	}
	unix.Umask(0o022) // a plugin directory that has to be made is for all users, too
	if i.pluginDir == "" {
		target.PluginDir, why, err = install.FindPluginDir()
		return target, why, err
	}
	// The directory's driver is executed from another working directory.
	target.PluginDir, err = filepath.Abs(i.pluginDir)
	return target, "as --plugin-dir says", err
}

// openSource returns a function that reads a file, "" for none. It works also when the root
// directory has changed, and reads the present file: a kubelet replaces the files of a
// ConfigMap by changing a link.
func openSource(path string) (read func() ([]byte, error), err error) {
	if path == "" {
		return func() ([]byte, error) { return nil, nil }, nil
	}
	directory, err := os.OpenRoot(filepath.Dir(path))
	return func() ([]byte, error) { return directory.ReadFile(filepath.Base(path)) }, err
}

// longestLook is longer than any look takes: one that ends the daemon waits for two minutes
// at most.
const longestLook = 5 * time.Minute

// firstLookTimeout is how long /readyz waits for the first look, which installs the driver: a
// kubelet makes an event of each answer that the driver is not ready. It is less than the kubelet
// waits (the probe's timeoutSeconds).
const firstLookTimeout = 4 * time.Second

// keep looks at the node again and again, and tells a kubelet and Prometheus about it. It
// ends at SIGTERM, at once: its work can be interrupted at any moment.
func (i *installer) keep(look func() error, page func() string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	watch := &install.Watch{Look: look, Interval: i.interval, Log: i.log}
	failed := make(chan error, 1)
	if i.listen != "" {
		listener, err := net.Listen("tcp", i.listen)
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		i.log("listening on %s", listener.Addr())
		go func() { failed <- metrics.Serve(listener, i.pages(watch, page)) }()
	}
	go watch.Run(ctx)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("serve metrics: %w", err)
	}
}

// pages are those of /healthz, /readyz and /metrics.
func (i *installer) pages(watch *install.Watch, page func() string) map[string]func() metrics.Page {
	started := time.Now()
	return map[string]func() metrics.Page{
		"/healthz": func() metrics.Page {
			looked, _ := watch.Looked()
			if looked.IsZero() {
				looked = started
			}
			if ago := time.Since(looked); ago > i.interval+longestLook {
				return metrics.Unavailable(fmt.Sprintf("the last look ended %v ago", ago.Round(time.Second)))
			}
			return metrics.OK()
		},
		"/readyz": func() metrics.Page {
			looked, wrong := watch.Looked()
			for began := time.Now(); looked.IsZero() && time.Since(began) < firstLookTimeout; looked, wrong = watch.Looked() {
				time.Sleep(50 * time.Millisecond)
			}
			switch {
			case wrong != nil:
				return metrics.Unavailable(wrong.Error())
			case looked.IsZero():
				return metrics.Unavailable("the first look has not ended")
			}
			return metrics.OK()
		},
		"/metrics": func() metrics.Page { return metrics.Page{Status: 200, Type: metrics.ContentType, Body: page()} },
	}
}

// log writes to where containers log.
func (i *installer) log(format string, args ...any) {
	i.format.Container(os.Stderr, lines(fmt.Sprintf(format, args...)))
}
