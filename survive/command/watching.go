package command

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/survive/internal/metrics"
)

// longestLook is longer than any look takes: one that ends the daemon waits for two minutes
// at most.
const longestLook = 5 * time.Minute

// keep looks at the node again and again, and tells a kubelet and Prometheus about it. It
// ends at SIGTERM, at once: its work can be interrupted at any moment.
func (i *installer) keep(look func() error, page func() string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	watch := &install.Watch{Look: look, Interval: i.interval, Log: logLine}
	failed := make(chan error, 1)
	if i.listen != "" {
		listener, err := net.Listen("tcp", i.listen)
		if err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
		logLine("listening on %s", listener.Addr())
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
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().UTC().Format(time.RFC3339), line(fmt.Sprintf(format, args...)))
}
