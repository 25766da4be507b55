package flex

import (
	"fmt"
	"strconv"
	"strings"
)

// Call executes the call-out args[0] with the arguments that follow and
// returns the answer to print. A call-out that the driver does not implement,
// or that does not exist, is "Not supported"; bad arguments and panics are a
// "Failure".
func Call(driver Driver, args []string) Answer {
	return call(func() (Driver, error) { return driver, nil }, args)
}

func call(newDriver func() (Driver, error), args []string) (answer Answer) {
	defer func() {
		if reason := recover(); reason != nil {
			answer = fail(fmt.Errorf("%s: internal error: %v", args[0], reason))
		}
	}()
	driver, err := newDriver()
	if err != nil {
		return fail(fmt.Errorf("%s: %w", args[0], err))
	}
	callOut, known := find(args[0])
	if !known {
		return Answer{Status: NotSupported, Message: fmt.Sprintf("call-out %q is not known", args[0])}
	}
	run := callOut.bind(driver)
	if run == nil {
		return Answer{Status: NotSupported, Message: fmt.Sprintf("call-out %q is not implemented by this driver", args[0])}
	}
	parsed, err := parse(callOut.parameters, args[1:])
	if err != nil {
		return fail(Invalid(fmt.Errorf("%s: %w", args[0], err)))
	}
	if answer, err = run(parsed); err != nil {
		return fail(err)
	}
	answer.Status = Success
	return answer
}

// arguments are a call-out's arguments, by their kind. Only those that the
// call-out's parameters name are set.
type arguments struct {
	dir, device, node, volume string
	options                   Options
	newSize, oldSize          int64
}

func parse(parameters string, args []string) (parsed arguments, err error) {
	names, list := strings.Split(parameters, ", "), " ("+parameters+")"
	if parameters == "" {
		names, list = nil, ""
	}
	if len(args) != len(names) {
		return parsed, fmt.Errorf("needs %d arguments%s, has %d", len(names), list, len(args))
	}
	for i, name := range names {
		if err := parsed.set(name, args[i]); err != nil {
			return parsed, err
		}
	}
	return parsed, nil
}

func (a *arguments) set(name, value string) (err error) {
	switch name {
	case directory:
		a.dir = value
	case "device":
		a.device = value
	case "node":
		a.node = value
	case "volume":
		a.volume = value
	case "options":
		a.options, err = ParseOptions(value)
	case "new size":
		a.newSize, err = size(name, value)
	case "old size":
		a.oldSize, err = size(name, value)
	}
	return err
}

// directory is the parameter with a volume's directory.
const directory = "directory"

func size(name, value string) (int64, error) {
	bytes, err := strconv.ParseInt(value, 10, 64)
	if err != nil || bytes < 0 {
		return 0, fmt.Errorf("%s %q is not a number of bytes", name, value)
	}
	return bytes, nil
}
