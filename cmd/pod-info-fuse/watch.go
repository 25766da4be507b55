package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// watch reads a file again and again and prints each result: a small workload
// that shows what a reader of the volume goes through.
func watch(args []string) error {
	set, _ := flags("watch")
	interval := set.Duration("interval", time.Second, "time between two reads")
	keepOpen := set.Bool("keep-open", false, "open the file once, and read it again from its beginning")
	exitOnError := set.Bool("exit-on-error", false, "exit with status 1 at the first error")
	count := set.Int("count", 0, "end after so many reads; 0: never")
	if err := set.Parse(args); err != nil {
		return usageError(err)
	}
	if set.NArg() != 1 {
		return usageError(errors.New("watch needs the path of a file"))
	}
	w := watcher{path: set.Arg(0), keepOpen: *keepOpen}
	for n := 1; ; n++ {
		started := time.Now()
		content, err := w.read()
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

type watcher struct {
	path     string
	keepOpen bool
	file     *os.File // nil: not open
}

// read returns the content of the file, read from its beginning.
func (w *watcher) read() (content []byte, err error) {
	if w.file == nil {
		if w.file, err = os.Open(w.path); err != nil {
			return nil, err
		}
	}
	content, err = io.ReadAll(io.NewSectionReader(w.file, 0, 1<<20))
	if !w.keepOpen {
		w.file.Close()
		w.file = nil
	}
	return content, err
}
