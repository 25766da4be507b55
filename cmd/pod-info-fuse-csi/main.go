// The runtime would size GOMAXPROCS by the cgroup's CPU limit, and keep cgroup
// files open to follow it.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command pod-info-fuse-csi is the CSI node plugin of pod-info-fuse: volumes of pods that ask
// for csi instead of flexVolume, served by the driver that is installed on the node. Package
// csi says how.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/csi"
	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/calllog"
)

// version is replaced by the linker; see the Makefile.
var version = "0.0.0-dev"

const usage = `pod-info-fuse-csi is the CSI node plugin of pod-info-fuse.

  serve [FLAG...]   serve the kubelet, until SIGTERM
  probe [FLAG...]   tell whether the plugin that serves is ready: exit status
                    0, or 1 with the reason
  version           print the version

Each command has --help.
`

// endpoint adds the flag that says where the plugin serves. Its default is that of the CSI specification
// ("Operational Recommendations"), or else where the socket's directory is in the container. When the flags
// are read, socket returns the path.
func endpoint(set *pflag.FlagSet, what string) (socket func() (string, error)) {
	url := set.String("endpoint", cmp.Or(os.Getenv("CSI_ENDPOINT"), "unix:///csi/csi.sock"), what)
	return func() (string, error) {
		path, err := csi.Socket(*url)
		if err != nil {
			err = fmt.Errorf("--endpoint: %w; %w", err, errUsage)
		}
		return path, err
	}
}

// logFormat is how this process logs.
var logFormat = calllog.Text

func main() { os.Exit(run(os.Args[1:])) }

// errUsage is an error in a command line.
var errUsage = errors.New("see --help")

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	var err error
	switch args[0] {
	case "serve":
		err = serve(args[1:])
	case "probe":
		err = probe(args[1:])
	case "version", "--version":
		fmt.Println("pod-info-fuse-csi " + version)
	case "help", "--help", "-h":
		fmt.Print(usage)
	default:
		err = fmt.Errorf("there is no command %q; %w", args[0], errUsage)
	}
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return 0
	}
	fmt.Fprintf(os.Stderr, "pod-info-fuse-csi: %v\n", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// parse reads a command's flags; there must be nothing else.
func parse(set *pflag.FlagSet, args []string) error {
	err := set.Parse(args)
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("%s takes no argument %q", set.Name(), set.Arg(0))
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		err = fmt.Errorf("%w; %w", err, errUsage)
	}
	return err
}

func serve(args []string) error {
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	driver := set.String("driver", "example.com/pod-info-fuse", "`VENDOR/DRIVER` whose call-outs are executed; CSI-NAME is DRIVER.VENDOR")
	p := csi.Plugin{Version: version, Log: logLine}
	set.StringSliceVar(&p.Attributes, "attributes", []string{"facts"}, "the `NAMES` of the volumeAttributes that pods may set, the driver's options")
	set.StringVar(&p.PolicyAttribute, "policy-attribute", "", "`NAME` of one of them: a volume that has it may have others, which are for an admission policy")
	set.StringVar(&p.NodeID, "node-id", os.Getenv("NODE_NAME"), "`NAME` of the node; without it, $NODE_NAME")
	at := endpoint(set, "`URL` of the socket to serve at, unix://PATH, which on the host is KUBELET-DIR/plugins/CSI-NAME/csi.sock; without it, $CSI_ENDPOINT")
	set.Var(&logFormat, "log-format", "text, or json for an object a message")
	registration := set.String("registration-dir", "/registration", "`DIR` where the kubelet looks for plugins, which on the host is KUBELET-DIR/plugins_registry; empty: the plugin is not registered")
	set.StringVar(&p.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "the kubelet's root `DIR`, in its own words")
	set.StringVar(&p.Binary, "binary", "", "`PATH` of the installed driver on the host; without it, where it is installed for the kubelet, or else KUBELET-DIR/plugins/CSI-NAME/VENDOR~DRIVER/DRIVER")
	if err := parse(set, args); err != nil {
		return err
	}
	var err error
	if p.Driver, err = flex.ParseName(*driver); err != nil {
		return err
	}
	socket, err := at()
	if err != nil {
		return err
	}
	if p.NodeID == "" {
		return fmt.Errorf("the node's name is not known; say it with --node-id or in $NODE_NAME; %w", errUsage)
	}
	bound()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	return p.Serve(ctx, socket, *registration)
}

// bound keeps the memory small: there are some requests a minute.
func bound() {
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(20)
}

func probe(args []string) error {
	set := pflag.NewFlagSet("probe", pflag.ContinueOnError)
	at := endpoint(set, "`URL` of the socket that is served at; without it, $CSI_ENDPOINT")
	live := set.Bool("live", false, "only tell whether it answers at all")
	limit := set.Duration("timeout", 4*time.Second, "`TIME` to wait until the answer is a good one")
	if err := parse(set, args); err != nil {
		return err
	}
	socket, err := at()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	return probeUntil(ctx, socket, *live)
}

// probeInterval is how long to wait between two probes that fail.
const probeInterval = 500 * time.Millisecond

// probeUntil probes until the plugin is ready or the context ends. A plugin that has just begun waits for
// the installer beside it, and a kubelet makes an event of each probe that fails.
func probeUntil(ctx context.Context, socket string, live bool) error {
	for {
		err := csi.Probe(ctx, socket, live)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(probeInterval):
		}
	}
}

// logLine writes to where containers log. What is in a line may be from elsewhere.
func logLine(format string, args ...any) {
	logFormat.Container(os.Stderr, fmt.Sprintf(format, args...))
}
