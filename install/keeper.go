package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"example.com/pod-info-fuse/survive"
)

// Watch looks at the node again and again.
type Watch struct {
	Look     func() error  // does what is due, and says what is still wrong
	Interval time.Duration // between two looks
	Log      func(format string, args ...any)

	mu     sync.Mutex // guards what follows
	looked time.Time
	wrong  error
}

// Run looks until the context ends, the first time at once.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(w.Interval)
	defer ticker.Stop()
	for {
		w.note(w.Look())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (w *Watch) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && (w.wrong == nil || w.wrong.Error() != err.Error()) {
		w.Log("%v", err)
	}
	w.looked, w.wrong = time.Now(), err
}

// Looked returns when the last look ended, and what was wrong then. The time is
// zero before the first.
func (w *Watch) Looked() (at time.Time, wrong error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looked, w.wrong
}

// Keeper keeps a driver in its place: its Look is for a Watch.
type Keeper struct {
	Target
	Binary *os.File
	// Config returns what config.json shall have in it; nil leaves what is there.
	Config func() ([]byte, error)
	Node   survive.Node
	// Deliver puts on the node what the driver needs beside its directory. nil: nothing.
	Deliver func() error
	// Former is where the driver was for FlexVolume, and shall be no more. nil: nowhere.
	Former *Target
	// Due tells whether the daemon would be given another input, or another companion, if the
	// driver were called now. nil: it never is.
	Due func() bool
	Log func(format string, args ...any)

	looked    bool
	wanted    Content   // at the last look
	seen      string    // the signature of the files when they were right; "" none
	former    string    // the same, of those of Former
	dead      bool      // the node mount, at the last look
	recordDue time.Time // when to look for volumes without a record
	lost      int       // how many there were
	keeps     string    // the FlexVolume for which Former is there
	tried     time.Time // to heal, in vain so far
	repairs   atomic.Int64
}

// Repairs counts the installations since the first look that a missing or altered driver
// caused: those of a new configuration do not count.
func (k *Keeper) Repairs() int { return int(k.repairs.Load()) }

// Look installs the driver if it is missing or altered, and has dead volumes
// healed, also where it could not be installed.
func (k *Keeper) Look() error {
	first := !k.looked
	changed, err := k.repair()
	err = errors.Join(err, k.Node.Inside().RefuseNew(false))
	k.looked = true
	if err == nil && first && !changed {
		// The kubelet may have met a driver here that it could not execute.
		err = k.touch()
	}
	if k.Deliver != nil {
		err = errors.Join(err, k.Deliver())
	}
	if err == nil && k.Former != nil {
		err = k.leaveFormer()
	}
	return errors.Join(err, k.heal(changed))
}

// leaveFormer removes the driver from where it was before, unless FlexVolumes need it there.
// Then it is kept the same as the other: the kubelet calls its init at each of its restarts, by
// which any version takes over, an older one as well.
func (k *Keeper) leaveFormer() error {
	inUse, err := k.Former.CloseFlexVolume(k.Node)
	if inUse != "" && k.keeps == "" {
		k.Log("%s stays while FlexVolumes are mounted, such as %s", k.Former.Dir(), inUse)
	}
	k.keeps = inUse
	if inUse != "" {
		_, err = k.renew(*k.Former, &k.former)
	}
	return err
}

// repair installs the driver if it is not there as it should be.
func (k *Keeper) repair() (changed bool, err error) {
	c := Content{Binary: k.Binary}
	if c.Config, err = k.Config(); err != nil {
		return false, fmt.Errorf("read the configuration to install: %w", err)
	}
	asBefore := k.looked && bytes.Equal(k.wanted.Config, c.Config)
	k.wanted = c
	changed, err = k.renew(k.Target, &k.seen)
	if changed && asBefore {
		k.repairs.Add(1)
	}
	return changed, err
}

// renew makes a place have what is wanted. It does not read again files that have not changed
// since they were right: seen is their signature then.
func (k *Keeper) renew(t Target, seen *string) (changed bool, err error) {
	now := k.signature(t)
	if now == *seen {
		return false, nil
	}
	changed, err = t.Install(k.wanted)
	if changed {
		k.Log("installed %s", t.Binary())
		now = k.signature(t)
	}
	if err == nil {
		*seen = now
	}
	return changed, err
}

// signature changes with the files of a driver's directory, which it does not read, and
// with the configuration to install.
func (k *Keeper) signature(t Target) string {
	return stamp(t.Dir()) + stamp(t.Binary()) + stamp(t.config()) + string(k.wanted.Config)
}

// stamp changes with a file's content and mode.
func stamp(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return "none\n"
	}
	s := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintln(s.Dev, s.Ino, s.Mode, s.Size, s.Ctim)
}
