package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/nodeplugin"
)

// twoDoors has this program measure requests to the CSI plugin on a node of its own: the plugin
// mounts in the namespaces of process 1, which elsewhere may be somebody else's.
func (b *bench) twoDoors() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := nodeplugin.Command(self, "doors", "--driver-binary", b.settings.binary, "--plugin-binary", b.settings.plugin)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("on a node of its own: %w", err)
	}
	return json.Unmarshal(output, &b.figures) // beside those that are there
}

// doors is the process that measures there, and prints its figures.
func doors(args []string) error {
	flags := flag.NewFlagSet("doors", flag.ContinueOnError)
	var s settings
	flags.StringVar(&s.binary, "driver-binary", "", "")
	flags.StringVar(&s.plugin, "plugin-binary", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	b := &bench{settings: s, ctx: ctx, figures: figures{}, began: time.Now()}
	if err := b.with(b.byTurns); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(b.figures)
}

// publishes is after how many of them the plugin's memory is measured. There are two in a round.
const publishes = 1000

// byTurns measures what a volume costs through each door, and the plugin's memory afterwards.
func (b *bench) byTurns() (err error) {
	const guest = 1 << 20
	mount := func() (float64, error) { c, err := b.driver.mount(guest); return c.wall, err }
	unmount := func() (float64, error) { c, err := b.driver.unmount(guest); return c.wall, err }
	// From here on there is a daemon, which no request has to start.
	if _, err := mount(); err != nil {
		return err
	}
	if _, err := unmount(); err != nil {
		return err
	}
	if _, err := b.driver.pids(); err != nil {
		return err
	}
	p, err := nodeplugin.Start(b.ctx, b.settings.plugin, nodeplugin.Driver{Name: b.driver.name, Binary: b.driver.binary, Root: b.root})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	pod := uidOf(guest)
	if err := os.MkdirAll(p.Volume(pod), 0o750); err != nil {
		return err
	}
	publish := func() (float64, error) { return walled(func() error { return p.Publish(pod) }) }
	unpublish := func() (float64, error) { return walled(func() error { return p.Unpublish(pod) }) }
	for range publishes / 2 {
		for _, turn := range []struct {
			what string
			do   func() (float64, error)
		}{
			{"publish", publish}, {"publish again", publish}, {"unpublish", unpublish},
			{"mount", mount}, {"mount again", mount}, {"unmount", unmount},
		} {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			wall, err := turn.do()
			if err != nil {
				return fmt.Errorf("%s: %w", turn.what, err)
			}
			b.figures.add(doorName(turn.what), wall)
		}
	}
	private, _, err := memoryOf([]int{p.PID()})
	if err != nil {
		return err
	}
	anonymous, err := fieldsOf(fmt.Sprintf("/proc/%d/smaps_rollup", p.PID()), "Anonymous:")
	b.figures.add("memory/plugin/uss", private)
	b.figures.add("memory/plugin/anonymous", float64(anonymous))
	return err
}

// walled tells how many milliseconds something took.
func walled(do func() error) (float64, error) {
	began := time.Now()
	err := do()
	return milliseconds(time.Since(began)), err
}

func (b *bench) doorSection() section {
	f := b.figures
	s := section{
		title: "Two doors", head: [4]string{"a volume", "by the CSI plugin", "by the call-out alone", "ratio"},
		text: "The CSI plugin executes `mount` and `unmount` on the host; beside each request is that call-out alone. The kubelet\n" +
			"publishes again every minute.",
	}
	for _, turn := range [][2]string{{"publish", "mount"}, {"publish again", "mount again"}, {"unpublish", "unmount"}} {
		s.rows = append(s.rows, compared(turn[0], f[doorName(turn[0])], f[doorName(turn[1])], "ms", ""))
	}
	s.rows = append(s.rows,
		row{what: fmt.Sprintf("private memory of the plugin, published %d times", publishes), ours: amount(f["memory/plugin/uss"], "KiB"), goal: "at most 12 MB"},
		row{what: "of that, anonymous: not of its binary", ours: amount(f["memory/plugin/anonymous"], "KiB")})
	return s
}
