package flex

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Main is the main function of a driver: it executes the call-out that the
// process was started for and exits.
func Main(driver Driver) {
	if len(os.Args) < 2 {
		fmt.Fprintf(os.Stderr, "usage: %s CALL-OUT [ARGUMENT...]\nThis is a FlexVolume driver; the kubelet executes it.\n", filepath.Base(os.Args[0]))
		os.Exit(2)
	}
	stdout, err := Quiet()
	if err != nil {
		stdout = os.Stdout // a spoilt answer is better than none
	}
	os.Exit(Print(stdout, Call(driver, os.Args[1:])))
}

// Print writes the answer and returns the exit status: 0 whatever the answer
// says, 1 when the answer could not be written.
func Print(stdout *os.File, answer Answer) int {
	if _, err := stdout.Write(answer.Encode()); err != nil {
		return 1
	}
	return 0
}

// Quiet puts /dev/null in the place of descriptors 1 and 2 and returns what
// descriptor 1 was, for the answer. From then on, nothing that the process or
// its children print reaches the kubelet.
func Quiet() (*os.File, error) {
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
