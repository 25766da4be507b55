//go:build broken

package main

import (
	"errors"
	"time"
)

// serve is that of a test build, which cannot serve: its version says how.
func serve([]string) error {
	if version == "hangs" {
		time.Sleep(time.Hour)
	}
	return errors.New("this version is broken")
}
