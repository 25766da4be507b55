package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// usageError prints what is wrong with a command line.
func usageError(err error) error {
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return err
	}
	fmt.Fprintf(os.Stderr, "pod-info-fuse: %v; see pod-info-fuse help\n", err)
	return errUsage
}
