package flex

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Outcome is how a call-out went. It has none of the options, which may hold secrets.
type Outcome struct {
	CallOut string // the process's first argument: anything, where nobody knows the call-out
	Dir     string // that the call-out was for; "" if it has none
	Answer  Answer
	Unsaid  error // why the answer could not be printed; nil: it was
}

// Main is the main function of a driver: it executes the call-out that the
// process was started for and exits. newDriver makes the driver; its error, or a panic, is
// a failure of the call-out. Nothing that it prints reaches the kubelet.
//
// Afterwards, Main tells the observers, which may log or count the call-out. The exit status
// is 1 if the answer could not be printed, and 0 otherwise, whatever the answer is: with
// another one, the kubelet would log all arguments, which may hold secrets. Nothing that
// happens to observers changes it, not even a signal or a panic.
func Main(newDriver func() (Driver, error), observers ...func(Outcome)) {
	if len(os.Args) < 2 {
		fmt.Fprintf(os.Stderr, "usage: %s CALL-OUT [ARGUMENT...]\nThis is a FlexVolume driver; the kubelet executes it.\n", filepath.Base(os.Args[0]))
		os.Exit(2)
	}
	args := os.Args[1:]
	stdout, err := quiet()
	if err != nil {
		stdout = os.Stdout // a spoilt answer is better than none
	}
	answer := call(newDriver, args)
	signal.Ignore()
	status := 0
	_, err = stdout.Write(answer.Encode())
	if err != nil {
		status = 1
	}
	defer os.Exit(status)
	for _, observe := range observers {
		observe(Outcome{args[0], dirOf(args), answer, err})
	}
}

// dirOf returns the directory among a call-out's arguments, whether they are right or not.
func dirOf(args []string) string {
	if names, _ := parameters(args[0]); len(names) == 0 || len(args) < 2 {
		return ""
	}
	return args[1]
}

// quiet puts /dev/null in the place of descriptors 1 and 2 and returns the old descriptor 1,
// for the answer. From then on, nothing that the process or its children print reaches the
// kubelet.
func quiet() (*os.File, error) {
	stdout, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("duplicate stdout: %w", err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(stdout)
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(null)
	for _, descriptor := range []int{1, 2} {
		if err := unix.Dup3(null, descriptor, 0); err != nil {
			unix.Close(stdout)
			return nil, fmt.Errorf("replace descriptor %d by /dev/null: %w", descriptor, err)
		}
	}
	return os.NewFile(uintptr(stdout), "stdout"), nil
}
