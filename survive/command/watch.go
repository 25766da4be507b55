package command

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
)

// watch reads a file again and again: a small workload that shows every failure that a reader of
// the volume meets. It prints each result.
func (p Program) watch(set *pflag.FlagSet) func([]string) error {
	interval := set.Duration("interval", time.Second, "`TIME` between two reads")
	keepOpen := set.Bool("keep-open", false, "open the file once, and read it again from its beginning")
	exitOnError := set.Bool("exit-on-error", false, "exit with status 1 at the first error")
	count := set.Int("count", 0, "end after `N` reads; 0: never")
	return func(args []string) error {
		return watchFile(args[0], *interval, *keepOpen, *exitOnError, *count)
	}
}

func watchFile(path string, interval time.Duration, keepOpen, exitOnError bool, count int) error {
	var file *os.File // nil: not open
	for n := 1; ; n++ {
		started := time.Now()
		var content []byte
		var err error
		if file == nil {
			file, err = os.Open(path)
		}
		if err == nil {
			content, err = io.ReadAll(io.NewSectionReader(file, 0, 1<<20))
		}
		if !keepOpen {
			file.Close()
			file = nil
		}
		result := fmt.Sprintf("%q", content)
		if err != nil {
			result = "error: " + err.Error()
		}
		took := time.Since(started).Round(time.Microsecond)
		fmt.Printf("%s %s in %v\n", started.Format("2006-01-02T15:04:05.000Z07:00"), line(result), took)
		if err != nil && exitOnError {
			return fmt.Errorf("read %d failed", n)
		}
		if n == count {
			return nil
		}
		time.Sleep(interval)
	}
}
