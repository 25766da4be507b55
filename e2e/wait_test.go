//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"time"
)

// eventually polls until condition returns nil. What it still returns at the
// deadline becomes the error.
func eventually(limit time.Duration, condition func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := condition()
		var hopeless hopelessError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &hopeless):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("after %v: %w", limit, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A hopelessError ends eventually at once: waiting longer cannot help.
type hopelessError struct{ error }
