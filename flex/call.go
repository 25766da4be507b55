package flex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Status is the outcome of a call-out. The kubelet knows these three words.
type Status string

const (
	Success      Status = "Success"
	Failure      Status = "Failure"
	NotSupported Status = "Not supported"
)

// Answer is what a call-out prints: the kubelet's DriverStatus.
type Answer struct {
	Status  Status `json:"status"`
	Message string `json:"message,omitempty"`
	// Invalid says of a Failure that the caller's arguments are wrong; see [Invalid]. The kubelet
	// decodes none but its own fields (kubernetes v1.34, pkg/volume/flexvolume/driver-call.go).
	Invalid bool `json:"invalid,omitempty"`

	// Capabilities are set in the answer to init, and only there.
	Capabilities *Capabilities `json:"capabilities,omitempty"`
}

// Encode returns the answer as one line of JSON. Bytes of a message that are
// not UTF-8 come out as U+FFFD.
func (a Answer) Encode() []byte {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false) // messages are read by people: "<" stays "<"
	if err := encoder.Encode(a); err != nil {
		panic(err) // strings and booleans can always be encoded
	}
	return line.Bytes()
}

func fail(err error) Answer {
	return Answer{Status: Failure, Message: err.Error(), Invalid: errors.As(err, new(invalid))}
}

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

// Known tells whether a driver has a call-out of this name.
func Known(name string) bool {
	_, known := parameters(name)
	return known
}

// parameters are those of a call-out. A kubelet has others (kubernetes v1.34,
// pkg/volume/flexvolume), of which the drivers that package flex is for need none.
func parameters(callOut string) (names []string, known bool) {
	switch callOut {
	case "init":
		return nil, true
	case "mount":
		return []string{"directory", "options"}, true
	case "unmount":
		return []string{"directory"}, true
	}
	return nil, false
}

// Call executes the call-out args[0] with the arguments that follow and
// returns the answer to print. A call-out that drivers do not have is "Not supported";
// bad arguments and panics are a "Failure".
func Call(driver Driver, args []string) Answer {
	return call(func() (Driver, error) { return driver, nil }, args)
}

func call(newDriver func() (Driver, error), args []string) (answer Answer) {
	callOut, args := args[0], args[1:]
	defer func() {
		if reason := recover(); reason != nil {
			answer = fail(fmt.Errorf("%s: internal error: %v", callOut, reason))
		}
	}()
	driver, err := newDriver()
	if err != nil {
		return fail(fmt.Errorf("%s: %w", callOut, err))
	}
	names, known := parameters(callOut)
	if !known {
		return Answer{Status: NotSupported, Message: fmt.Sprintf("call-out %q is not implemented by this driver", callOut)}
	}
	if len(args) != len(names) {
		return fail(Invalid(fmt.Errorf("%s: needs %d arguments (%s), has %d", callOut, len(names), strings.Join(names, ", "), len(args))))
	}
	switch callOut {
	case "init":
		answer.Capabilities = new(Capabilities)
		*answer.Capabilities, err = driver.Init()
	case "mount":
		options, invalid := ParseOptions(args[1])
		if invalid != nil {
			return fail(Invalid(fmt.Errorf("%s: %w", callOut, invalid)))
		}
		err = driver.Mount(args[0], options)
	case "unmount":
		err = driver.Unmount(args[0])
	}
	if err != nil {
		return fail(err)
	}
	answer.Status = Success
	return answer
}
