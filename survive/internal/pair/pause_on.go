//go:build slow

package pair

import "time"

func pause(d time.Duration) { time.Sleep(d) }
