package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/survive"
)

// stop ends the daemon and removes everything that the driver has on the node.
func (p Program) stop(args []string) error {
	set := p.Flags("stop")
	force := set.Bool("force", false, "unmount volumes that are mounted; pods that use them read errors from then on")
	n, err := p.Node(set, args)
	if err != nil {
		return err
	}
	inUse, err := n.Stop(*force)
	if err != nil || len(inUse) == 0 {
		return err
	}
	var list strings.Builder
	for _, v := range inUse {
		if v.Problem != nil {
			fmt.Fprintf(&list, "\n  %v", v.Problem)
		} else {
			fmt.Fprintf(&list, "\n  %s  %s", Printable(v.Dir, 0), podOf(v))
		}
	}
	return fmt.Errorf("volumes are in use; delete their pods, or use --force:%s", list.String())
}

// upgrade lets this version take over from the one that serves.
func (p Program) upgrade(args []string) error {
	n, err := p.Node(p.Flags("upgrade"), args)
	if err != nil {
		return err
	}
	from, err := n.Upgrade()
	if err != nil {
		return err
	}
	if from == "" {
		fmt.Printf("nothing to do: no daemon serves, or it has version %s already\n", p.Version)
		return nil
	}
	fmt.Printf("version %s serves in the place of %s\n", p.Version, Printable(from, longestWord))
	return nil
}

// restore heals volumes whose daemon has died, and reports them.
func (p Program) restore(args []string) error {
	i, err := p.find(p.Flags("restore"), args)
	if err != nil {
		return err
	}
	all, err := i.Node.Restore()
	if err != nil {
		return err
	}
	for _, text := range survive.Lines(all) {
		fmt.Println(line(text))
		p.log(i).Line("restore: %s", text)
	}
	count, failed := 0, 0
	for _, h := range all {
		count += 1 + h.More
		if h.Err != nil {
			failed += 1 + h.More
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d dead mounts are not healed; delete the pods that hold them", failed, count)
	}
	if len(all) == 0 {
		fmt.Println("nothing was dead")
	}
	return nil
}

// watch reads a file again and again and prints each result: a small workload that shows
// every failure that a reader of the volume meets.
func (p Program) watch(args []string) error {
	set := pflag.NewFlagSet("watch", pflag.ContinueOnError)
	set.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage: %s watch [FLAG...] FILE\n%s", p.Program, set.FlagUsages())
	}
	interval := set.Duration("interval", time.Second, "`TIME` between two reads")
	keepOpen := set.Bool("keep-open", false, "open the file once, and read it again from its beginning")
	exitOnError := set.Bool("exit-on-error", false, "exit with status 1 at the first error")
	count := set.Int("count", 0, "end after `N` reads; 0: never")
	if err := set.Parse(args); err != nil {
		return p.UsageError(err)
	}
	if set.NArg() != 1 {
		return p.UsageError(errors.New("watch needs one FILE"))
	}
	var file *os.File // nil: not open
	for n := 1; ; n++ {
		started := time.Now()
		var content []byte
		var err error
		if file == nil {
			file, err = os.Open(set.Arg(0))
		}
		if err == nil {
			content, err = io.ReadAll(io.NewSectionReader(file, 0, 1<<20))
		}
		if !*keepOpen {
			file.Close()
			file = nil
		}
		result := fmt.Sprintf("%q", content)
		if err != nil {
			result = "error: " + err.Error()
		}
		fmt.Printf("%s %s in %v\n", started.Format("2006-01-02T15:04:05.000Z07:00"), result, time.Since(started).Round(time.Microsecond))
		if err != nil && *exitOnError {
			return fmt.Errorf("read %d failed", n)
		}
		if n == *count {
			return nil
		}
		time.Sleep(*interval)
	}
}
