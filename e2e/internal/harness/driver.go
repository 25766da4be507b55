package harness

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A Driver is the driver's binary as it is installed under one name.
type Driver struct {
	Name string // as pods write it
	Dir  string // as the kubelet looks for it
}

// Escaped is a driver's name as a directory's name.
func Escaped(name string) string { return strings.ReplaceAll(name, "/", "~") }

// Program is the name of its program, as the drivers are called here after theirs.
func (d *Driver) Program() string { return filepath.Base(d.Name) }

// RunDir is where the driver keeps its state.
func (d *Driver) RunDir() string { return filepath.Join("/run", d.Program(), Escaped(d.Name)) }

func (d *Driver) Executable() string { return filepath.Join(d.Dir, d.Program()) }

// Run runs one of the driver's commands, and returns what it printed.
func (d *Driver) Run(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, d.Executable(), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s of the driver %s: %w: %s", strings.Join(args, " "), d.Name, err, stderr.Bytes())
	}
	return out, err
}
