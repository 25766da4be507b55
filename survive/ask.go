package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/volume"
)

// introduce has the kernel keep the attributes of a volume's files that vary, see [SizeVarier], and
// opens the volume's directory, or a path in it. Nobody else may have the volume yet.
func (n daemon) introduce(path string, record volume.Record, varying []uint8) (*mount.Point, error) {
	aliases := make([]string, len(varying))
	for i, number := range varying {
		aliases[i] = connection.Alias(volume.Node(record.ID(), number), record.Generation())
	}
	return n.ask(path, stepTimeout, aliases...)
}

// errSilent says that the daemon did not answer, and that its connection was aborted.
var errSilent = errors.New("the daemon does not answer")

// isDead tells whether an error says that the node mount's server, or the mount itself, is
// gone. The next use starts another daemon.
func isDead(err error) bool {
	for _, dead := range []error{errSilent, mount.ErrBad, mount.ErrNotMounted, unix.ENOTCONN, unix.ECONNABORTED, unix.ENODEV} {
		if errors.Is(err, dead) {
			return true
		}
	}
	return false
}

// ask looks names up in the root of the node mount, and then opens a path below it. These are
// root's only requests to the daemon by way of the kernel.
func (n daemon) ask(path string, limit time.Duration, names ...string) (*mount.Point, error) {
	root, err := mount.Open(n.fsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s %w: %w", n.fsPath(), mount.ErrNotMounted, err)
	} else if err != nil {
		return nil, err
	}
	defer root.Close()
	hurried := false
	if limit > deadTimeout { // a pair that is well may need most of it
		limit = max(n.within(limit), reportTimeout)
		hurried = limit < abortTimeout
	}
	found, err := root.Below(path, limit, names...)
	if errors.Is(err, mount.ErrSilent) && hurried {
		return nil, fmt.Errorf("ask the daemon: %w", errNoTime)
	} else if errors.Is(err, mount.ErrSilent) {
		n.Log("it has not answered for %v, also not with its standby: its connection is aborted", limit)
		err = fmt.Errorf("%w: %w", errSilent, err)
	} else if errors.Is(err, mount.ErrBad) {
		n.Log("it has answered that its root is no directory, as no honest version does: " +
			"its connection is aborted")
	}
	if isDead(err) && !errors.Is(err, mount.ErrNotMounted) {
		// From now on it does not count as served, whatever process has the daemon's locks.
		return nil, errors.Join(err, n.retire(root))
	}
	return found, err
}

// answers tells whether the daemon answers. If it does not, its connection is aborted.
func (n daemon) answers(limit time.Duration) (bool, error) {
	// No volume has this name, but any answer will do. The name is another one each time: the
	// daemon decides for how long the kernel caches its answer for a name.
	found, err := n.ask("/answers-"+strconv.FormatUint(rand.Uint64(), 36), limit)
	switch {
	case err == nil:
		found.Close()
		return true, nil
	case isDead(err):
		return false, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, mount.ErrRefused):
		return true, nil
	}
	return false, err // not known: we may have no descriptor left
}
