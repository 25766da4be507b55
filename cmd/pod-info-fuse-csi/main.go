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
	"example.com/pod-info-fuse/internal/cli"
)

// version is replaced by the linker; see the Makefile.
var version = "0.0.0-dev"

// table is the command line.
func table() cli.Table {
	return cli.Table{
		Program: "pod-info-fuse-csi", Version: version, About: "pod-info-fuse-csi is the CSI node plugin of pod-info-fuse.",
		Commands: []cli.Command{
			{
				Name: "serve", Prepare: serve, Help: "serve the kubelet, until SIGTERM",
				Example: "serve --node-id node-1 --endpoint unix:///csi/csi.sock --log-format json",
			},
			{
				Name: "probe", Prepare: probe, Help: "tell whether the plugin that serves is ready: exit status 0, or 1 with the reason",
				Example: "probe --timeout 4s",
			},
		},
	}
}

// endpoint adds the flag that says where the plugin serves. Its default is that of the CSI
// specification ("Operational Recommendations"), or else where the socket's directory is in the
// container. When the flags are read, socket returns the path.
func endpoint(set *pflag.FlagSet, what string) (socket func() (string, error)) {
	url := set.String("endpoint", cmp.Or(os.Getenv("CSI_ENDPOINT"), "unix:///csi/csi.sock"), what)
	return func() (string, error) {
		path, err := csi.Socket(*url)
		if err != nil {
			err = cli.Usage(fmt.Errorf("--endpoint: %w", err))
		}
		return path, err
	}
}

// logFormat is how this process logs.
var logFormat = calllog.Text

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, table().Help())
		return 2
	}
	err := table().Run(args[0], args[1:])
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "pod-info-fuse-csi: %v\n", err)
	if _, ok := errors.AsType[cli.UsageError](err); ok {
		return 2
	}
	return 1
}

func serve(set *pflag.FlagSet) func([]string) error {
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
	return func([]string) error {
		var err error
		if p.Driver, err = flex.ParseName(*driver); err != nil {
			return err
		}
		socket, err := at()
		if err != nil {
			return err
		}
		if p.NodeID == "" {
			return cli.Usage(errors.New("the node's name is not known; say it with --node-id or in $NODE_NAME"))
		}
		bound()
		ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer cancel()
		return p.Serve(ctx, socket, *registration)
	}
}

// bound keeps the memory small: there are some requests a minute.
func bound() {
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(20)
}

func probe(set *pflag.FlagSet) func([]string) error {
	at := endpoint(set, "`URL` of the socket that is served at; without it, $CSI_ENDPOINT")
	live := set.Bool("live", false, "only tell whether it answers at all")
	limit := set.Duration("timeout", 4*time.Second, "`TIME` to wait until the answer is a good one")
	return func([]string) error {
		socket, err := at()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), *limit)
		defer cancel()
		return probeUntil(ctx, socket, *live)
	}
}

// probeInterval is how long to wait between two probes that fail.
const probeInterval = 500 * time.Millisecond

// probeUntil probes until the plugin is ready or the context ends. A plugin that has just begun
// waits for the installer beside it, and a kubelet makes an event of each probe that fails.
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
