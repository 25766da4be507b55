//go:build broken

package survive

import (
	"errors"
	"time"
)

// serve is that of a test build, which cannot serve: its version says how.
func (d Driver) serve([]string) error {
	if d.Version == "hangs" {
		time.Sleep(time.Hour)
	}
	return errors.New("this version is broken")
}
