package daemon

import (
	"errors"
	"fmt"
	"time"
)

// Start starts the pair on a connection, with arguments for its command, and returns
// when its first process serves. settle is called with that process before it does,
// to move it to where it shall stay; its error is remembered for the status. The
// process starts its standby itself.
func Start(args []string, r Resources, settle func(pid int) error) error {
	ours, theirs, err := linkPair()
	if err != nil {
		return err
	}
	process, err := start(args, r, theirs)
	theirs.Close()
	if err != nil {
		ours.close()
		return fmt.Errorf("start the daemon: %w", err)
	}
	first := newChild(ours, process)
	if err := first.introduce(settle); err != nil {
		first.close()
		_ = process.Kill()
		_, _ = process.Wait()
		return fmt.Errorf("start the daemon: %w", err)
	}
	first.close()
	// It outlives this process, and init will reap it.
	return process.Release()
}

// introduce plays the active process that leaves.
func (c *child) introduce(settle func(pid int) error) error {
	select {
	case m, open := <-c.messages:
		if !open {
			return errors.New("it died before it was ready")
		}
		if m.Kind != ready {
			return errors.New(m.Problem)
		}
	case <-time.After(startTime):
		return fmt.Errorf("it was not ready within %v", startTime)
	}
	var history History
	if err := settle(c.process.Pid); err != nil {
		history.CgroupError = err.Error()
	}
	c.link.send(message{Kind: standBy, History: &history})
	c.link.send(message{Kind: takeOver, History: &history})
	if !c.await(serving, startTime) {
		return errors.New("it was ready, but did not serve")
	}
	return nil
}
