//go:build systemd

package systemd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// load reads a machine's volume all the time.
type load struct {
	machine *machine
	input   io.Closer // when closed, the readers end
	result  chan error
	reads   reads
}

// reads are what the readers did.
type reads struct {
	Count   int
	Errors  []string // the first few
	Failed  int
	Longest time.Duration
}

// read starts the readers.
func (m *machine) read() *load {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	m.t.Cleanup(cancel)
	command := m.command(ctx, readerVariable+"="+volume, "nice", "/e2e/reader")
	input, err := command.StdinPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	l := &load{machine: m, input: input, result: make(chan error, 1)}
	go func() {
		output, err := command.Output()
		if err == nil {
			err = json.Unmarshal(output, &l.reads)
		}
		l.result <- err
	}()
	return l
}

// stop ends the readers, none of which may have seen an error.
func (l *load) stop() {
	t := l.machine.t
	t.Helper()
	l.input.Close()
	select {
	case err := <-l.result:
		if err != nil {
			t.Fatalf("the readers: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the readers hang")
	}
	t.Logf("%d times open, read, close; %d errors; at most %v", l.reads.Count, l.reads.Failed, l.reads.Longest)
	if l.reads.Failed > 0 || l.reads.Count < 100 {
		t.Errorf("errors: %s", strings.Join(l.reads.Errors, "\n"))
	}
}

// readMain is the program that reads, with four readers, until its input ends.
func readMain(volume string) int {
	var mu sync.Mutex // guards all
	var all reads
	end := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				for _, name := range []string{"pod.uid", "pod.nodename", "pod", "pid"} {
					began := time.Now()
					err := readOne(filepath.Join(volume, name))
					mu.Lock()
					all.Count++
					all.Longest = max(all.Longest, time.Since(began))
					if err != nil {
						if all.Failed++; all.Failed <= 10 {
							all.Errors = append(all.Errors, err.Error())
						}
					}
					mu.Unlock()
				}
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(end)
	readers.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(all)
	return 0
}

// readOne opens, reads and closes a file, and looks at what is in it.
func readOne(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	hostname, _ := os.Hostname()
	want := map[string]string{"pod.uid": podUID, "pod.nodename": hostname}[filepath.Base(path)]
	if want == "" {
		want = fmt.Sprint(os.Getpid())
	}
	if string(content) != want+"\n" {
		return fmt.Errorf("%s: %q, want %q", path, content, want)
	}
	return nil
}
