package survive

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/volume"
)

// Healing puts the living file system in the place of dead ones, wherever they are
// mounted: in the kubelet's directories, and in every container. The kubelet does
// neither: it never calls mount again for a volume that it believes mounted.
//
// Only volumes of file systems that are known to be ours are healed, see dead.go, and never
// the node mount, which shows every pod.

// Healed is a dead mount and what became of it.
type Healed struct {
	PID     int    // a process in the mount namespace; 0: the node's own
	Command string // of that process
	Path    string // as that process sees it
	Volume  volume.Record
	Err     error // nil: the volume is there again
	More    int   // further ones in the namespace that have not been tried, for the same reason

	namespace string // its name; "" for the node's own
}

const (
	// healers is how many namespaces are healed at a time, each by a process.
	healers = 4
	// healTimeout is how long all of it may take; the next call-out does the rest.
	healTimeout = 20 * time.Second
	// healLockTimeout is how long it waits for a call-out that has locked a volume of our own
	// namespace. The other volumes wait meanwhile.
	healLockTimeout = 5 * time.Second
	// lockTimeout is how long all of it waits for locked namespaces.
	lockTimeout = time.Second
	// linesMost is how many lines report all of it.
	linesMost = 200
)

// stack is the mounts on one path, of which the topmost is dead.
type stack struct {
	top    *mountinfo.Info
	volume volume.ID // that it shows
	count  int       // of the dead mounts in it
}

func (s stack) device() uint64 { return deviceOf(s.top) }

// stacksIn finds them in a namespace, by path.
func (n healing) stacksIn(namespace mount.Namespace, all dead) (map[string]stack, error) {
	infos, err := namespace.Mounts(n.fsType(), n.Name.String())
	if err != nil {
		return nil, err
	}
	covered := map[string]bool{} // mounts that are below another on the same path
	byPath := func(info *mountinfo.Info, id int) string { return fmt.Sprintf("%d %s", id, info.Mountpoint) }
	for _, info := range infos {
		covered[byPath(info, info.Parent)] = true
	}
	found := map[string]stack{}
	for _, info := range infos {
		id, ofVolume := volumeOf(info)
		if _, ours := all[deviceOf(info)]; !ours || !ofVolume || n.isKept(info.Mountpoint) {
			continue
		}
		s := found[info.Mountpoint]
		s.count++
		if !covered[byPath(info, info.ID)] { // the order of the list does not tell
			s.top, s.volume = info, id
		}
		found[info.Mountpoint] = s
	}
	maps.DeleteFunc(found, func(_ string, s stack) bool { return s.top == nil })
	return found, nil
}

// isKept tells whether a mount is one of dead.go's, also as a container sees it that has
// the host's /run elsewhere.
func (n healing) isKept(path string) bool {
	return strings.HasSuffix(filepath.Dir(path), n.deadPath())
}

// healOwn heals our own namespace.
func (n healing) healOwn(all dead) (healed []Healed, err error) {
	found, err := n.stacksIn(mount.Own(), all)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	varying := n.varying()
	for path, dead := range found {
		record, err := n.healOwnMount(dead, varying)
		healed = append(healed, Healed{Path: path, Volume: record, Err: err})
	}
	return healed, nil
}

// healOwnMount introduces the volume, which nobody has yet: containers are healed later. It does so
// also for a mount of a subPath, which may be healed before that of the volume.
func (n healing) healOwnMount(dead stack, varying []uint8) (record volume.Record, err error) {
	// Or an unmount would find the dead one, and leave the one in its place.
	unlock, err := n.lockVolumeUntil(dead.volume, time.Now().Add(n.within(healLockTimeout)))
	if err != nil {
		return record, err
	}
	defer unlock()
	return n.healLocked(dead, varying)
}

// healLocked does that for a volume that the caller has locked.
func (n healing) healLocked(dead stack, varying []uint8) (record volume.Record, err error) {
	return n.replace(dead, varying, mount.OwnUsers, func(tree *mount.Tree) error {
		return mount.Own().Do(func() error { return tree.Replace(dead.top.Mountpoint, dead.count, dead.device()) })
	})
}

// healOn heals a volume that is dead on its directory, in our own namespace. It reports whether it
// has, and the log tells. The caller has locked the volume.
func (n healing) healOn(point *mount.Point, id volume.ID) bool {
	all, err := n.dead()
	if err != nil {
		return false
	}
	defer all.close()
	found, err := n.stacksIn(mount.Own(), all)
	if err != nil {
		return false
	}
	info, err := point.Info()
	if err != nil || info == nil {
		return false
	}
	dead, is := found[info.Mountpoint]
	if !is || dead.volume != id {
		return false
	}
	record, err := n.healLocked(dead, n.varying())
	n.logHealed([]Healed{{Path: info.Mountpoint, Volume: record, Err: err}})
	return err == nil
}

var errNoRecord = errors.New("it has no record: the volume was unmounted, or its record is lost")

// affected is a namespace, and what is dead in it, by path.
type affected struct {
	mount.Namespace
	dead map[string]stack
	err  error // why nobody can heal it
}

// heal heals all namespaces, and forgets the file systems of which nothing is left. Our own comes
// first: what changes in it propagates to some of the others. One of those may be hostile, and
// never let go of a process that has entered it. So processes of their own enter, and the caller
// holds no lock. What was adopted before is returned as well.
func (n healing) heal(adopted []Healed) (healed []Healed) {
	all, err := n.dead()
	if err != nil {
		return append(adopted, Healed{Path: n.deadPath(), Err: err})
	}
	defer all.close()
	if len(all) == 0 {
		return adopted
	}
	healed, ownErr := n.healOwn(all)
	until := time.Now().Add(n.within(healTimeout))
	others, seenErr := n.survey(all, until, 1)
	inOthers, openErr := n.healEach(others, until)
	others, err = n.survey(all, until, 10)
	own, leftErr := n.stacksIn(mount.Own(), all)
	now := append(others, affected{Namespace: mount.Own(), dead: own, err: leftErr})
	healed = withoutGone(append(healed, inOthers...), now, err == nil && leftErr == nil)
	healed = slices.DeleteFunc(healed, func(h Healed) bool { // one line for each is enough
		return h.PID == 0 && slices.ContainsFunc(adopted, func(a Healed) bool { return a.Path == h.Path })
	})
	healed = append(adopted, healed...)
	for _, err := range []error{ownErr, seenErr, openErr, err, leftErr} {
		if isUnseen(err) {
			err = fmt.Errorf("look at all of them: %w; the next call-out tries it again", err)
			return append(healed, Healed{Path: "other mount namespaces", Err: err})
		}
	}
	if err != nil || leftErr != nil {
		return healed // somebody may have what is dead
	}
	left := map[uint64]bool{}
	for _, a := range now {
		if a.err != nil && len(a.dead) > 0 || errors.Is(a.err, mount.ErrLong) {
			healed = append(healed, Healed{PID: a.PID, Command: command(a.PID), Path: "its volumes", More: max(0, len(a.dead)-1), Err: a.err})
		}
		for _, s := range a.dead {
			left[s.device()] = true
		}
	}
	for device, point := range all {
		if !left[device] {
			n.forget(point)
		}
	}
	return healed
}

// withoutGone leaves out what could not be healed and is not dead any more, as a later look says,
// at all namespaces or at some: an unmount, which needs no more than the volume's lock, another
// healing, or the end of a container was faster. Only mountinfo can tell: a mount that is covered
// has no path, and is there.
func withoutGone(healed []Healed, now []affected, all bool) []Healed {
	left := map[string]map[string]stack{} // by namespace
	for _, a := range now {
		if a.err == nil { // or it was not looked at, or nothing was healed there
			left[a.Name] = a.dead
		}
	}
	return slices.DeleteFunc(healed, func(h Healed) bool {
		there, seen := left[h.namespace]
		_, dead := there[h.Path]
		// Where another healing is at work, mountinfo may have the mount for a moment still.
		return errors.Is(h.Err, mount.ErrGone) || h.Err != nil && !dead && (seen || all)
	})
}

// mostDead is how many dead mounts of a namespace are healed: the dead mounts of all namespaces are
// in memory at the same time. A node agent that sees the volumes of all pods has fewer.
const mostDead = 4096

var errUntold = errors.New("the kernel does not tell which namespace it is in, while it executes a program; call again")

// isUnseen tells whether an error says that we could not look, and not that a process has ended.
func isUnseen(err error) bool { return proc.IsShort(err) || errors.Is(err, errNoTime) }

// survey looks for dead mounts in all namespaces but our own. An error says that it does not know
// all of them. A namespace with too many mounts is not looked at again: its dead ones stay. A
// process often ends meanwhile where containers come and go, and others are in its namespace: then
// it looks again, so many times at most. Who ends processes all the time must not use up the time
// for healing.
func (n healing) survey(all dead, until time.Time, tries int) (others []affected, err error) {
	look := func(namespaces []mount.Namespace, why error) (found []affected) {
		for _, namespace := range namespaces {
			if time.Now().After(until) {
				err = errNoTime
			}
			if isUnseen(err) {
				return found
			}
			stacks, lookErr := n.stacksIn(namespace, all)
			switch {
			case errors.Is(lookErr, mount.ErrLong):
				found = append(found, affected{namespace, nil, lookErr})
			case lookErr != nil:
				err = lookErr
			case len(stacks) > mostDead:
				found = append(found, affected{namespace, nil, mount.ErrLong})
			default:
				found = append(found, affected{namespace, stacks, why})
			}
		}
		return found
	}
	for range tries {
		var named, unnamed []mount.Namespace
		if named, unnamed, err = mount.Others(); err != nil {
			return nil, err
		}
		others = append(look(named, nil), look(unnamed, errUntold)...)
		if err == nil || isUnseen(err) {
			break
		}
	}
	return others, err
}

// healEach heals namespaces, some at a time. The error says that this process was short of
// something that it needs to open one of them.
func (n healing) healEach(others []affected, until time.Time) (healed []Healed, short error) {
	others = slices.DeleteFunc(others, func(a affected) bool { return a.err != nil || len(a.dead) == 0 })
	// Namespaces with many dead mounts come last, so that nobody can use up the time of others
	// by making them.
	slices.SortStableFunc(others, func(a, b affected) int { return len(a.dead) - len(b.dead) })
	var (
		group     sync.WaitGroup
		mu        sync.Mutex                    // guards the results
		lockUntil = time.Now().Add(lockTimeout) // for all together: whoever has locked many delays the others once
		turns     = make(chan struct{}, healers)
	)
	for _, a := range others {
		turns <- struct{}{} // here, so that they begin in order
		group.Go(func() {
			defer func() { <-turns }()
			some, err := n.healNamespace(a, until, lockUntil)
			mu.Lock()
			defer mu.Unlock()
			healed = append(healed, some...)
			if proc.IsShort(err) {
				short = err
			}
		})
	}
	group.Wait()
	return healed, short
}

// healNamespace heals the dead mounts in a namespace. The error says that it could not be opened.
func (n healing) healNamespace(a affected, until, lockUntil time.Time) (healed []Healed, err error) {
	file, err := a.Open()
	if err != nil { // its process has ended, or we are short of descriptors
		return nil, err
	}
	defer file.Close()
	// The lock goes with the processes that enter, and stays with one that hangs: no further
	// process is spent on its namespace. The processes in there can take the lock, too, and
	// then keep their dead mounts.
	stop := filelock.Within(lockUntil, file, filelock.Flock(unix.LOCK_EX))
	if stop != nil {
		stop = fmt.Errorf("another healing of its namespace goes on, or does not end: %w", stop)
	}
	for path, dead := range a.dead {
		h := Healed{PID: a.PID, Command: command(a.PID), Path: path, Err: stop, namespace: a.Name}
		if time.Now().After(until) {
			h.Err = errNoTime
		}
		if h.Err != nil {
			h.More = len(a.dead) - len(healed) - 1
			return append(healed, h), nil
		}
		h.Volume, h.Err = n.healOther(file, dead)
		healed = append(healed, h)
		if errors.Is(h.Err, errHangs) {
			stop = h.Err
		}
	}
	return healed, nil
}

func (n healing) healOther(namespace *os.File, dead stack) (volume.Record, error) {
	users := func() (*os.File, error) { return mount.Users(namespace) }
	return n.replace(dead, nil, users, func(tree *mount.Tree) error {
		return replaceIn(namespace, tree, dead.top.Mountpoint, dead.count, dead.device())
	})
}

// replace has the living file system put in the place of a dead mount.
func (n healing) replace(dead stack, varying []uint8, users func() (*os.File, error), put func(*mount.Tree) error) (record volume.Record, err error) {
	record, err = n.Volumes().Get(dead.volume)
	if errors.Is(err, os.ErrNotExist) {
		err = errNoRecord
	}
	if err != nil {
		return record, err
	}
	source, err := n.introduce(rootOf(dead.top), record, varying)
	if err != nil {
		return record, err
	}
	defer source.Close()
	// We have no lock: the daemon may have died once more, and a healing that has begun since
	// does not know our tree as dead.
	if there, err := n.look(); err != nil || there.living() != source.Device() {
		return record, errors.Join(errors.New("the daemon has died meanwhile"), err)
	}
	tree, err := source.Clone()
	if err != nil {
		return record, err
	}
	defer tree.Close()
	if err := tree.Resemble(dead.top, users); err != nil {
		return record, err
	}
	return record, put(tree)
}

// rootOf is the part of its file system that a mount shows. Where the entry was dropped
// from the kernel's cache, a mark follows it (fs/proc_namespace.c, show_mountinfo).
func rootOf(info *mountinfo.Info) string { return strings.TrimSuffix(info.Root, "//deleted") }

// volumeOf returns the volume that a mount shows: its root is "/<id>", or "/<id>/pod.uid"
// for a subPath. That of the node mount is none.
func volumeOf(info *mountinfo.Info) (id volume.ID, ok bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(rootOf(info), "/"), "/")
	id, err := volume.ParseID(name)
	return id, err == nil
}

func command(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name))
}

// String is a line for people.
func (h Healed) String() string {
	what := h.Path
	if h.PID != 0 {
		what += fmt.Sprintf(" in the container of process %d (%s)", h.PID, h.Command)
	}
	if pod := h.Volume.Pod(); pod != "" {
		what += ", pod " + pod
	}
	if h.Err == nil {
		return "healed: " + what
	}
	if h.More > 0 {
		what += fmt.Sprintf(" (and %d more there)", h.More)
	}
	return fmt.Sprintf("not healed: %s: %v", what, h.Err)
}

// Lines report all of them, for people.
func Lines(all []Healed) (lines []string) {
	for i, h := range all {
		if i == linesMost {
			return append(lines, fmt.Sprintf("and %d more", len(all)-i))
		}
		lines = append(lines, h.String())
	}
	return lines
}

func (n healing) logHealed(all []Healed) {
	for _, line := range Lines(all) {
		n.Log("%s", line)
	}
}
