package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
)

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
		content, err := readAgain(&file, set.Arg(0))
		if file != nil && !*keepOpen {
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

// readAgain reads a file from its beginning, and opens it if it is not open.
func readAgain(file **os.File, path string) (content []byte, err error) {
	if *file == nil {
		if *file, err = os.Open(path); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.NewSectionReader(*file, 0, 1<<20))
}
