package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/metrics"
)

// watching is what --watch does: it looks at the node again and again, and tells
// a kubelet and Prometheus about it.
type watching struct {
	set      *pflag.FlagSet
	on       bool
	interval time.Duration
	listen   string
}

func watchFlags(set *pflag.FlagSet) *watching {
	w := &watching{set: set}
	set.BoolVar(&w.on, "watch", false, "stay, look at the node again and again and do what is due, until SIGTERM")
	set.DurationVar(&w.interval, "interval", 2*time.Second, "with --watch: `TIME` between two looks")
	set.StringVar(&w.listen, "listen", "", "with --watch: `ADDRESS` to serve /healthz, /readyz and /metrics on, such as :9808")
	return w
}

// check refuses flags that mean nothing.
func (w *watching) check() error {
	switch {
	case !w.on && (w.set.Changed("interval") || w.set.Changed("listen")):
		return usageError(errors.New("--interval and --listen go with --watch"))
	case w.interval <= 0:
		return usageError(fmt.Errorf("--interval is %v; it must be more than 0", w.interval))
	}
	return nil
}

// longestLook is more than a look can take: one that ends the daemon waits for two
// minutes at most.
const longestLook = 5 * time.Minute

// run ends at SIGTERM, at once: whatever is under way can be interrupted at any
// moment.
func (w *watching) run(look func() error, page func() string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	watch := &install.Watch{Look: look, Interval: w.interval, Log: logLine}
	failed := make(chan error, 1)
	if w.listen != "" {
		listener, err := net.Listen("tcp", w.listen)
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		logLine("listening on %s", listener.Addr())
		go func() { failed <- metrics.Serve(listener, w.pages(watch, page)) }()
	}
	go watch.Run(ctx)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("serve metrics: %w", err)
	}
}

func (w *watching) pages(watch *install.Watch, page func() string) map[string]func() metrics.Page {
	started := time.Now()
	return map[string]func() metrics.Page{
		"/healthz": func() metrics.Page {
			looked, _ := watch.Looked()
			if looked.IsZero() {
				looked = started
			}
			if ago := time.Since(looked); ago > w.interval+longestLook {
				return metrics.Unavailable(fmt.Sprintf("the last look ended %v ago", ago.Round(time.Second)))
			}
			return metrics.OK()
		},
		"/readyz": func() metrics.Page {
			switch looked, wrong := watch.Looked(); {
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

// logLine writes to where containers log.
func logLine(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
}
