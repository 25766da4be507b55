package pair

import "time"

// pause is a place where other processes do something meanwhile.
func pause(milliseconds int) { time.Sleep(time.Duration(milliseconds) * time.Millisecond) }
