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
func Call(driver Driver, args []string) (answer Answer) {
	defer func() {
		if reason := recover(); reason != nil {
			answer = fail(fmt.Errorf("%s: internal error: %v", args[0], reason))
		}
	}()
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
		return fail(fmt.Errorf("%s: %w", args[0], err))
	}
	return run(parsed)
}

// arguments are a call-out's arguments, by their kind. Only those that the
// call-out's parameters name are set.
type arguments struct {
	dir, device, node, volume string
	options                   Options
	newSize, oldSize          int64
}

// parameter is one positional argument of a call-out.
type parameter struct {
	name string
	set  func(*arguments, string) error
}

var (
	dirParameter     = text("directory", func(a *arguments) *string { return &a.dir })
	deviceParameter  = text("device", func(a *arguments) *string { return &a.device })
	nodeParameter    = text("node", func(a *arguments) *string { return &a.node })
	volumeParameter  = text("volume", func(a *arguments) *string { return &a.volume })
	newSizeParameter = size("new size", func(a *arguments) *int64 { return &a.newSize })
	oldSizeParameter = size("old size", func(a *arguments) *int64 { return &a.oldSize })

	optionsParameter = parameter{"options", func(a *arguments, value string) (err error) {
		a.options, err = ParseOptions(value)
		return err
	}}
)

func text(name string, field func(*arguments) *string) parameter {
	return parameter{name, func(a *arguments, value string) error {
		*field(a) = value
		return nil
	}}
}

func size(name string, field func(*arguments) *int64) parameter {
	return parameter{name, func(a *arguments, value string) error {
		bytes, err := strconv.ParseInt(value, 10, 64)
		if err != nil || bytes < 0 {
			return fmt.Errorf("%s %q is not a number of bytes", name, value)
		}
		*field(a) = bytes
		return nil
	}}
}

func parse(parameters []parameter, args []string) (parsed arguments, err error) {
	if len(args) != len(parameters) {
		return parsed, fmt.Errorf("needs %d arguments%s, has %d", len(parameters), names(parameters), len(args))
	}
	for i, p := range parameters {
		if err := p.set(&parsed, args[i]); err != nil {
			return parsed, err
		}
	}
	return parsed, nil
}

func names(parameters []parameter) string {
	if len(parameters) == 0 {
		return ""
	}
	list := make([]string, len(parameters))
	for i, p := range parameters {
		list[i] = p.name
	}
	return " (" + strings.Join(list, ", ") + ")"
}
