package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// measure tells what a volume costs. Nothing is in the way of the data, so that reading has to
// cost what it does of the same program mounted by root. That is not so of go-fuse's loopback: for
// root, Linux reads the files below it without asking it (FUSE_PASSTHROUGH).
func (t *trial) measure(ctx context.Context) {
	for _, one := range t.programs {
		if ctx.Err() == nil {
			t.report.check(t.measureOne(one))
		}
	}
	t.report.check(t.measureMemory())
}

// measuring is what one process of a container read, in a second or so.
type measuring struct {
	Opens float64 `json:"opens"` // of a file of 17 bytes: opened, read, closed; a second
	Bytes float64 `json:"bytes"` // of files of 300 kB, that no page cache has; a second
}

// runMeasured reads, as one thread.
func runMeasured(args []string) int {
	flags := flag.NewFlagSet("podchaos measured", flag.ExitOnError)
	path := flags.String("path", "", "")
	_ = flags.Parse(args)
	var large string
	for i := range treeFiles {
		if name := fileName(i); sizeOf(name) == slices.Max(sizes) {
			large = name
		}
	}
	buffer := make([]byte, 128<<10)
	read := func(name string) (n int) {
		fd, err := unix.Open(*path+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			panic(err)
		}
		defer unix.Close(fd)
		_ = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
		for {
			got, err := unix.Pread(fd, buffer, int64(n))
			if err != nil {
				panic(err)
			}
			if got == 0 {
				return n
			}
			n += got
		}
	}
	perSecond := func(name string, bytes bool) float64 {
		done, began := 0, time.Now()
		for time.Since(began) < 700*time.Millisecond {
			n := read(name)
			if !bytes {
				n = 1
			}
			done += n
		}
		return float64(done) / time.Since(began).Seconds()
	}
	_ = json.NewEncoder(os.Stdout).Encode(measuring{perSecond(smallFile(), false), perSecond(large, true)})
	return 0
}

// measureOne compares two containers, in turn.
func (t *trial) measureOne(one program) error {
	p, err := t.newPod(one)
	if err != nil {
		return err
	}
	defer func() { t.report.check(p.remove("data", "data-server")) }()
	if err := p.mountVolumes("60s"); err != nil {
		return err
	}
	if _, err := p.startServer(t.rig.sources, one, t.by[0]); err != nil {
		return err
	}
	ours, err := p.start("app", []string{"sleep", "infinity"}, p.appMounts(), nil)
	if err != nil {
		return err
	}
	other, err := t.newPod(one)
	if err != nil {
		return err
	}
	s, mounts, err := t.serveByRoot(other, one)
	if s != nil {
		defer func() { t.report.check(s.stop()) }()
	}
	if err != nil {
		return err
	}
	theirs, err := other.start("app", []string{"sleep", "infinity"}, mounts, nil)
	if err != nil {
		return err
	}
	var opens, bytes []float64
	for i := range 7 {
		a, err := ours.measured(i, "/data")
		if err != nil {
			return err
		}
		b, err := theirs.measured(i, "/data/m")
		if err != nil {
			return err
		}
		opens, bytes = append(opens, a.Opens/b.Opens), append(bytes, a.Bytes/b.Bytes)
	}
	t.compare(one.name+", opens", opens)
	t.compare(one.name+", bytes", bytes)
	return t.measureAttach(p, one)
}

func (c *container) measured(i int, path string) (m measuring, err error) {
	b, err := c.exec("measured-"+strconv.Itoa(i), "/podchaos", "measured", "--path", path)
	if err != nil {
		return m, err
	}
	<-b.left
	if err := json.Unmarshal(b.out.Bytes(), &m); err != nil {
		return m, fmt.Errorf("measure in container %s: %w: %s", c.name, err, c.said())
	}
	return m, nil
}

// compare notes ratios of ours to root's. Two fifths are more than noise, and less than a relay
// would take.
func (t *trial) compare(what string, ratios []float64) {
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	t.report.note("%-28s %.2f of the same mounted by root (%.2f to %.2f)", what, median, ratios[0], ratios[len(ratios)-1])
	if median < 0.6 {
		t.report.violation("%s: %.2f of the same mounted by root", what, median)
	}
}

// measureAttach looks from new containers, each for the first time.
func (t *trial) measureAttach(p *pod, one program) error {
	var took []time.Duration
	for i := range 10 {
		var out bytes.Buffer
		c, err := p.start(fmt.Sprintf("late-%d", i), []string{"/podchaos", "look", "--path", "/data/" + fileName(0)}, p.appMounts(), &out)
		if err != nil {
			return err
		}
		<-c.left
		var l looked
		if err := json.Unmarshal(out.Bytes(), &l); err != nil || l.Error != "" {
			return fmt.Errorf("a look gave %q (%w)", &out, err)
		}
		took = append(took, time.Duration(l.To-l.From))
	}
	t.report.note("%-28s %s", one.name+", first look", spread(took))
	return nil
}

// pairs is the number of pairs of volumes whose memory is measured.
const pairs = 200

// measureMemory tells the memory of the driver's processes, and what many volumes add to it.
func (t *trial) measureMemory() error {
	before := t.rig.private()
	var pods []*pod
	defer func() {
		for _, p := range pods {
			t.report.check(p.remove("data", "data-server"))
		}
	}()
	for range pairs {
		p, err := t.rig.newPod(t.uid)
		if err != nil {
			return err
		}
		pods = append(pods, p)
		if err := p.mountVolumes("60s"); err != nil {
			return err
		}
	}
	after := t.rig.private()
	total := 0
	for pid, kB := range after {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " ")
		t.report.note("process %-8d %6d kB private, with %d pairs of volumes %6d kB: %.60s", pid, before[pid], pairs, kB, words[strings.LastIndexByte(words[:strings.IndexByte(words+" ", ' ')], '/')+1:])
		total += kB - before[pid]
	}
	t.report.note("%.1f kB for each pair of volumes, in processes", float64(total)/pairs)
	return nil
}

// private is the memory that each of a driver's processes has for itself, in kB.
func (d *driver) private() map[int]int {
	all := map[int]int{}
	for _, pid := range d.processes() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); strings.HasPrefix(line, "Private_") && len(fields) > 1 {
				kB, _ := strconv.Atoi(fields[1])
				all[pid] += kB
			}
		}
	}
	return all
}
