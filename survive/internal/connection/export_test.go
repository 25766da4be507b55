package connection

import (
	"testing"
	"time"
)

// SubjectOf is what is suspected of a request, and FirstID its id.
var SubjectOf, FirstID = subjectOf, firstID

// FailOrphans is what Recover does before Linux 6.9.
func (c *Connection) FailOrphans(mountPoint string) error {
	return c.failOrphans(mountPoint)
}

// SetTooLong sets after what time an answer does not count any more among those that are slow,
// until the test ends.
func SetTooLong(t *testing.T, limit time.Duration) {
	before := tooLong
	t.Cleanup(func() { tooLong = before })
	tooLong = limit
}

// StandbyTimeout is how long suspects wait for a standby.
func StandbyTimeout() time.Duration { return standbyTimeout }

// SetStandbyTimeout sets how long suspects wait for a standby, until the test ends.
func SetStandbyTimeout(t *testing.T, timeout time.Duration) {
	before := standbyTimeout
	t.Cleanup(func() { standbyTimeout = before })
	standbyTimeout = timeout
}

// SetIsKilled has another function tell who is killed, until the test ends.
func SetIsKilled(t *testing.T, f func(thread uint32) bool) {
	before := isKilled
	t.Cleanup(func() { isKilled = before })
	isKilled = f
}
