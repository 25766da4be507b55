package survive

import (
	"errors"
	"fmt"
	"io/fs"
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
}

const (
	// healers is how many namespaces are healed at a time, each by a process.
	healers = 4
	// healTimeout is how long all of it may take; the next call-out does the rest.
	healTimeout = 20 * time.Second
	// healLockTimeout is how long it waits for a call-out that has locked a volume of our own
	// namespace. Other call-outs wait meanwhile, and so do the other volumes.
	healLockTimeout = 5 * time.Second
	// lockTimeout is how long all of it waits for locked namespaces.
	lockTimeout = time.Second
	// healMost is how many paths in a namespace are healed at a time.
	healMost = 100
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

// heal heals our own namespace, before all others: what changes in it propagates to
// some of them. The caller holds the exclusive lock.
func (n healing) heal() (healed []Healed) {
	var found map[string]stack
	all, err := n.dead()
	defer all.close()
	if len(all) > 0 {
		found, err = n.stacksIn(mount.Own(), all)
	}
	if err != nil {
		return []Healed{{Path: n.deadPath(), Err: err}}
	}
	for path, dead := range found {
		record, err := n.healOwn(dead)
		if !errors.Is(err, mount.ErrGone) {
			healed = append(healed, Healed{Path: path, Volume: record, Err: err})
		}
	}
	return n.withoutUnmounted(healed, mount.Own(), all)
}

// withoutUnmounted leaves out what could not be healed because an unmount, which needs no more than
// the volume's lock, or the end of a container was faster.
func (n healing) withoutUnmounted(healed []Healed, namespace mount.Namespace, all dead) []Healed {
	perhaps := func(h Healed) bool { return errors.Is(h.Err, errNoRecord) || errors.Is(h.Err, fs.ErrNotExist) }
	if !slices.ContainsFunc(healed, perhaps) {
		return healed
	}
	// Only mountinfo can tell: a mount that is covered has no path, and is there.
	now, err := n.stacksIn(namespace, all)
	if proc.IsShort(err) {
		return healed
	}
	return slices.DeleteFunc(healed, func(h Healed) bool {
		_, is := now[h.Path]
		return perhaps(h) && !is
	})
}

func (n healing) healOwn(dead stack) (record volume.Record, err error) {
	// Or an unmount would find the dead one, and leave the one in its place.
	unlock, err := n.lockVolumeUntil(dead.volume, time.Now().Add(n.within(healLockTimeout)))
	if err != nil {
		return record, err
	}
	defer unlock()
	return n.replace(dead, mount.OwnUsers, func(tree *mount.Tree) error {
		return mount.Own().Do(func() error { return tree.Replace(dead.top.Mountpoint, dead.count, dead.device()) })
	})
}

var errNoRecord = errors.New("it has no record: the volume was unmounted, or its record is lost")

// healOthers heals all other namespaces. A hostile one may never let go of a process that has
// entered it. So processes of their own enter, and the caller holds no lock meanwhile that a
// call-out needs. It also forgets the file systems of which nothing is left.
func (n healing) healOthers() (healed []Healed) {
	all, err := n.dead()
	if err != nil {
		return []Healed{{Path: n.deadPath(), Err: err}}
	}
	defer all.close()
	if len(all) == 0 {
		return nil
	}
	until := time.Now().Add(n.within(healTimeout))
	namespaces, _, err := mount.Others()
	if err != nil {
		return unlisted(err)
	}
	patients, unseen := n.survey(namespaces, all, until)
	// Namespaces with many dead mounts come last, so that nobody can use up the time of others
	// by making them.
	slices.SortStableFunc(patients, func(a, b patient) int { return len(a.dead) - len(b.dead) })
	healed, unknown := n.healEach(patients, all, until)
	switch err := worse(unseen, unknown); {
	case proc.IsShort(err):
		healed = append(healed, unlisted(err)...)
	case unknown == nil: // what the survey has not seen, this one does, or has no time left either
		healed = append(healed, n.forgetHealed(all, until)...)
	}
	return healed
}

// unlisted tells that the other namespaces are not known.
func unlisted(err error) []Healed {
	return []Healed{{Path: "other mount namespaces", Err: fmt.Errorf("look at all of them: %w; the next call-out tries it again", err)}}
}

// patient is a namespace, and what is dead in it, by path.
type patient struct {
	mount.Namespace
	dead map[string]stack
}

// worse is the one of two errors that is to be told: that something was short, before all others.
func worse(one, other error) error {
	if one == nil || proc.IsShort(other) {
		return other
	}
	return one
}

// survey looks for dead mounts in namespaces. An error says that it does not know all.
func (n healing) survey(namespaces []mount.Namespace, all dead, until time.Time) (patients []patient, err error) {
	for _, namespace := range namespaces {
		if time.Now().After(until) {
			return patients, worse(errNoTime, err)
		}
		found, foundErr := n.stacksIn(namespace, all)
		if foundErr != nil { // its process has ended, but others may be in it
			err = worse(err, foundErr)
			continue
		}
		patients = append(patients, patient{namespace, found})
	}
	return patients, err
}

// forgetHealed forgets the file systems of which nothing is mounted any more. It lists the
// namespaces afresh: the process by which one was seen may have ended, and others be in it. It
// returns what is dead in those of processes that cannot be asked now, into which nobody can go.
func (n healing) forgetHealed(all dead, until time.Time) (unhealed []Healed) {
	var missed error
	for range 10 { // it may end here, too, and where containers come and go one often does
		namespaces, untold, err := mount.Others()
		if err != nil {
			return unlisted(err)
		}
		patients, err := n.survey(slices.Concat(namespaces, []mount.Namespace{mount.Own()}, untold), all, until)
		if err != nil {
			missed = worse(missed, err)
			continue
		}
		left := map[uint64]bool{}
		for _, p := range patients {
			for _, s := range p.dead {
				left[s.device()] = true
			}
			if len(p.dead) > 0 && slices.Contains(untold, p.Namespace) {
				unhealed = append(unhealed, Healed{PID: p.PID, Command: command(p.PID), Path: "its volumes", More: len(p.dead) - 1, Err: errUntold})
			}
		}
		for device, point := range all {
			if !left[device] {
				n.forget(point)
			}
		}
		return unhealed
	}
	if proc.IsShort(missed) {
		return unlisted(missed)
	}
	return nil
}

// healEach heals namespaces, some at a time. The error says that not all dead mounts in them are
// known: another healer may be at work there, or hang.
func (n healing) healEach(patients []patient, all dead, until time.Time) (healed []Healed, unknown error) {
	var (
		group     sync.WaitGroup
		mu        sync.Mutex                    // guards the results
		lockUntil = time.Now().Add(lockTimeout) // for all together: whoever has locked many delays the others once
		turns     = make(chan struct{}, healers)
	)
	for _, p := range patients {
		turns <- struct{}{} // here, so that they begin in order
		group.Go(func() {
			defer func() { <-turns }()
			some, err := n.healNamespace(p, all, until, lockUntil)
			some = n.withoutUnmounted(some, p.Namespace, all)
			mu.Lock()
			defer mu.Unlock()
			healed, unknown = append(healed, some...), worse(unknown, err)
		})
	}
	group.Wait()
	return healed, unknown
}

// healNamespace heals the dead mounts in a namespace. It returns an error when it could not
// come to know all of them.
func (n healing) healNamespace(p patient, all dead, until, lockUntil time.Time) (healed []Healed, lockErr error) {
	if time.Now().After(until) {
		if len(p.dead) > 0 {
			healed = []Healed{{PID: p.PID, Command: command(p.PID), Path: "its volumes", More: len(p.dead) - 1, Err: errNoTime}}
		}
		return healed, errNoTime
	}
	file, err := p.Open()
	if proc.IsShort(err) {
		return nil, err
	} else if err != nil {
		return nil, nil // its process has ended; if it has others, forgetHealed finds what is left
	}
	defer file.Close()
	// The lock goes with the processes that enter, and stays with one that hangs: no further
	// process is spent on its namespace. The processes in there can take the lock, too, and
	// then keep their dead mounts.
	if len(p.dead) == 0 {
		lockUntil = time.Time{}
	}
	if lockErr = filelock.Within(lockUntil, file, filelock.Flock(unix.LOCK_EX)); lockErr != nil {
		lockErr = fmt.Errorf("another healing of its namespace goes on, or does not end: %w", lockErr)
	}
	found, err := n.stacksIn(p.Namespace, all)
	if proc.IsShort(err) {
		return nil, err
	} else if err != nil {
		return nil, nil
	}
	tried := 0
	for path, dead := range found {
		h := Healed{PID: p.PID, Command: command(p.PID), Path: path}
		switch {
		case lockErr != nil:
			h.Err = lockErr
		case time.Now().After(until):
			h.Err = errNoTime
		case tried == healMost:
			h.Err = fmt.Errorf("no more than %d are healed in a namespace at a time; call again", healMost)
		default:
			h.Volume, h.Err = n.healOther(file, dead)
			tried++
			if errors.Is(h.Err, errHangs) {
				lockErr = h.Err
			}
			if !errors.Is(h.Err, mount.ErrGone) {
				healed = append(healed, h)
			}
			continue
		}
		h.More = len(found) - tried - 1
		return append(healed, h), lockErr
	}
	return healed, lockErr
}

var errUntold = errors.New("the kernel does not tell which namespace it is in, while it executes a program; call again")

func (n healing) healOther(namespace *os.File, dead stack) (volume.Record, error) {
	users := func() (*os.File, error) { return mount.Users(namespace) }
	return n.replace(dead, users, func(tree *mount.Tree) error {
		return replaceIn(namespace, tree, dead.top.Mountpoint, dead.count, dead.device())
	})
}

// replace has the living file system put in the place of a dead mount.
func (n healing) replace(dead stack, users func() (*os.File, error), put func(*mount.Tree) error) (record volume.Record, err error) {
	record, err = n.Volumes().Get(dead.volume)
	if errors.Is(err, os.ErrNotExist) {
		err = errNoRecord
	}
	if err != nil {
		return record, err
	}
	source, err := n.ask(rootOf(dead.top), stepTimeout)
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
