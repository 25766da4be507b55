package connection

import (
	"testing"
	"time"
)

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
