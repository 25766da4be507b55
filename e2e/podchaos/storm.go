package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// stormThreads look at one volume at a time. Fewer can wait for it than that.
const stormThreads = 10_000

// storm is a pod that does all it can to keep the others from what they need: thousands of threads
// look at a volume that nobody serves, others ask to serve, and hang up, and others begin
// processes, without pause. Then it is removed.
func (t *trial) storm(ctx context.Context, _ int) error {
	p, err := t.rig.newPod(t.uid)
	if err != nil {
		return err
	}
	if err := p.mountVolumes("5m"); err != nil {
		return err
	}
	server := volumeMount{source: p.volume("data-server"), path: "/run/pod-fuse"}
	c, err := p.start("storm", []string{"/podchaos", "hostile"}, append(p.appMounts(), server), nil)
	if err == nil {
		err = await(ctx, stepTimeout, func() error {
			var s stormed
			if err := json.Unmarshal([]byte(c.said()[strings.LastIndexByte(c.said(), '\n')+1:]), &s); err != nil || s.Threads < stormThreads || s.Refused == 0 || s.Connections < 100 || s.Processes < 20 {
				return fmt.Errorf("the storm has not begun: %+v, %q", s, c.said())
			}
			return nil
		})
	}
	began := time.Now()
	err = errors.Join(err, p.remove("data", "data-server"))
	t.report.note("%7s ms  a pod of %d threads is removed", ms(time.Since(began)), stormThreads)
	return err
}

// stormed is what a hostile container has done so far.
type stormed struct {
	Threads     int64 `json:"threads"`     // that have looked
	Refused     int64 `json:"refused"`     // looks
	Connections int64 `json:"connections"` // that were begun
	Processes   int64 `json:"processes"`   // that have ended
}

// runHostile is the container of a storm.
func runHostile(args []string) int {
	_ = flag.NewFlagSet("podchaos hostile", flag.ExitOnError).Parse(args)
	debug.SetMaxThreads(2 * stormThreads)
	var threads, refused, connections, processes atomic.Int64
	for i := range stormThreads {
		go func() {
			threads.Add(1)
			for {
				var stat unix.Stat_t
				if unix.Stat("/data/"+fileName(i%treeFiles), &stat) != nil {
					refused.Add(1)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
	}
	for i := range 32 {
		go func() {
			for {
				connection, err := net.Dial("unixpacket", "/run/pod-fuse/socket")
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				connections.Add(1)
				for _, packet := range []string{`{"format":1,"kind":"ready"}`, "garbage", `{"format":1,"kind":"serve","options":{"subtype":"storm"}}`}[:i%4] {
					_, _ = connection.Write([]byte(packet))
				}
				connection.Close()
			}
		}()
	}
	for range 2 {
		go func() {
			for exec.Command("/bin/true").Run() == nil {
				processes.Add(1)
			}
		}()
	}
	for {
		_ = json.NewEncoder(os.Stderr).Encode(stormed{threads.Load(), refused.Load(), connections.Load(), processes.Load()})
		time.Sleep(100 * time.Millisecond)
	}
}
