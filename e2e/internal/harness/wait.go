package harness

import (
	"errors"
	"fmt"
	"time"
)

// Eventually polls until condition returns nil. What it still returns at the
// deadline becomes the error.
func Eventually(limit time.Duration, condition func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := condition()
		var hopeless HopelessError
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

// A HopelessError ends Eventually at once: waiting longer cannot help.
type HopelessError struct{ error }
