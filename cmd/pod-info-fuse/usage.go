package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

type extraArgument struct{ command, argument string }

func (e *extraArgument) Error() string {
	return fmt.Sprintf("%s takes no argument %q", e.command, e.argument)
}

// usageError prints what is wrong with a command line.
func usageError(err error) error {
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return err
	}
	fmt.Fprintf(os.Stderr, "pod-info-fuse: %v; see pod-info-fuse help\n", err)
	return errUsage
}
