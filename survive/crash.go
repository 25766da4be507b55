package survive

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

// A process that serves has the file RUN/crash as its standard error: Go's runtime writes there why
// it ends a process, as at a panic or a stack overflow. The process that takes over logs it, and
// the process that serves logs that of its standby. If both have died, the call-out that starts the
// daemon anew logs them first. Each takes the text out of the file, so that the next text there is
// of the process that ends next.
//
// The file is root's. A process that was taken over can write into it, as into its lock file: so
// what is read is short and quoted, and limitFiles bounds how large it gets.

const (
	// crashPage is how much of a text is logged, in bytes, and mostLines how many of its lines: the
	// first ones say why, and where.
	crashPage = 4096
	mostLines = 25
	// mostOfAFile is how large a process that serves can make any file, in bytes.
	mostOfAFile = 64 << 10
)

// openCrash opens the file for a process that is about to be started, and makes it if it is not
// there.
func openCrash(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, &os.PathError{Op: "open", Path: path, Err: unix.EINVAL}
	}
	return file, nil
}

// takeCrash returns the first page of what a file has, and has the next text begin there. A process
// that serves can neither open nor cut the file: it has the descriptor that the other one had.
func takeCrash(file *os.File) []byte {
	var page [2 * crashPage]byte
	n, _ := file.ReadAt(page[:], 0)
	text := bytes.Trim(page[:n], "\x00")
	if len(text) == 0 {
		return nil
	}
	text = bytes.Clone(text[:min(len(text), crashPage)])
	clear(page[:n])
	if _, err := file.Seek(0, io.SeekStart); err == nil {
		_, _ = file.Write(page[:n])
		_, _ = file.Seek(0, io.SeekStart)
	}
	return text
}

// logCrash logs the text of a crash, a line each.
func logCrash(text []byte, log func(format string, args ...any)) {
	lines := 0
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && lines < mostLines {
			log("crash: %q", line)
			lines++
		}
	}
}

// limitFiles keeps this process, and those that it starts, from filling the file system of the run
// directory by one of the files that it has open. A log that is a file may grow, and is elsewhere.
func limitFiles(logsToFile bool) {
	if logsToFile {
		return
	}
	signal.Ignore(unix.SIGXFSZ) // the write fails
	limit := unix.Rlimit{Cur: mostOfAFile, Max: mostOfAFile}
	_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
}

// lastWords are the reason of a panic, which is the last line before the goroutines.
func lastWords(text string) (words string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "goroutine ") {
			return words
		}
		words = cmp.Or(line, words)
	}
	return words
}
