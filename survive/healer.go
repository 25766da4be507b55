package survive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
)

// On the way to a dead mount in a container, another file system may never answer. A process
// that asks it waits in the kernel, and no signal ends the wait. So a healer asks, a process
// of its own for one mount. The parent waits until a deadline only, and leaves behind a
// healer that does not end.

// healVerb is the subcommand that runs healNamespace. It is not for people.
const healVerb = "heal"

// The descriptors of a healer, beside the standard ones, which are /dev/null.
const (
	resultFD = 3 + iota // a pipe, for its error
	namespaceFD
	treeFD
)

// healerTimeout is how long a healer may take for a mount. It takes milliseconds.
const healerTimeout = 5 * time.Second

var errHangs = errors.New("a file system on the way does not answer; the attempt was given up")

// replaceIn puts a tree in the place of so many mounts of a device, on a path in a namespace, in a
// healer.
func replaceIn(namespace *os.File, tree *mount.Tree, path string, mounts int, device uint64) error {
	process, result, err := startHealer(namespace, tree.File(), path, fmt.Sprint(mounts), fmt.Sprint(device))
	if err != nil {
		return fmt.Errorf("start a process to enter the namespace: %w", err)
	}
	defer result.Close()
	var text []byte
	if err = result.SetReadDeadline(time.Now().Add(healerTimeout)); err == nil {
		text, err = io.ReadAll(result) // until its end
	}
	if err != nil {
		return errors.Join(errHangs, process.Kill(), process.Release())
	}
	state, err := process.Wait()
	switch {
	case err != nil:
		return err
	case state.Success():
		return nil
	}
	if strings.HasSuffix(string(text), mount.ErrGone.Error()) {
		return mount.ErrGone
	}
	return fmt.Errorf("enter the namespace: %s", cmp.Or(string(text), state.String()))
}

// startHealer starts this binary as a healer. It has the two files and a pipe to us.
func startHealer(namespace, tree *os.File, args ...string) (process *os.Process, result *os.File, err error) {
	result, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	if process, err = proc.StartSelf([]string{}, 0, append([]string{healVerb}, args...), theirs, namespace, tree); err != nil {
		result.Close()
	}
	return process, result, err
}

// healNamespace is the life of a healer.
func healNamespace(args []string) error {
	flags, err := unix.FcntlInt(resultFD, unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_WRONLY || len(args) != 3 {
		return notByHand(healVerb)
	}
	unix.CloseOnExec(resultFD)
	var mounts int
	var device uint64
	if _, err = fmt.Sscan(args[1]+" "+args[2], &mounts, &device); err == nil {
		tree := mount.NewTree(treeFD, "the volume")
		err = mount.Inside(namespaceFD, func() error { return tree.Replace(args[0], mounts, device) })
	}
	if err != nil {
		fmt.Fprint(os.NewFile(resultFD, "result"), err)
	}
	return err
}

func notByHand(command string) error {
	return fmt.Errorf("%q is what the driver starts by itself, not a command", command)
}
