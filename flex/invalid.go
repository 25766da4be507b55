package flex

import "errors"

// Invalid marks an error as the caller's: arguments or options are wrong, and the same call would
// fail again. The answer says so in its field "invalid". A kubelet ignores that; who executes
// call-outs for another protocol, such as CSI, need not take the error for the driver's own.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return invalid{err}
}

type invalid struct{ error }

func (i invalid) Unwrap() error { return i.error }

func isInvalid(err error) bool { return errors.As(err, new(invalid)) }
