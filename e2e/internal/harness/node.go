package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// A Node is what a suite runs, below one directory.
type Node struct {
	Dir        string
	containerd *Process
}

// Program is the path of a program of ours that Build built.
func (n *Node) Program(name string) string { return filepath.Join(n.Dir, name) }

// Build builds a program from a directory, static, as containers need it.
func (n *Node) Build(name, source string, flags ...string) error {
	args := slices.Concat([]string{"build", "-o", n.Program(name)}, flags, []string{source})
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return nil
}
