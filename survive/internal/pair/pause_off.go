//go:build !slow

package pair

import "time"

// pause is a place where a test build waits.
func pause(time.Duration) {}
