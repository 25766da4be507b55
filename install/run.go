package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/proc"
)

// initTimeout is how long a driver may take to answer init. A test of a driver that hangs
// shortens it.
var initTimeout = 10 * time.Second

// answers executes the call-out init, as the kubelet will: a binary for another
// machine, or on a file system that executes nothing, must not become the driver.
func (t Target) answers(path string) error {
	// Under this name the driver has nothing on the node. Under its own, init would let it
	// take over.
	name := filepath.Join("/staged~"+t.Driver.File(), t.Driver.File())
	output, err := proc.Run(initTimeout, path, name, "init")
	switch {
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%w; the binary is for another architecture", err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w; is its file system mounted noexec? Choose another --plugin-dir", err)
	case err != nil:
		return err
	}
	var answer flex.Answer
	if err := json.Unmarshal(output, &answer); err != nil || answer.Status != flex.Success {
		return fmt.Errorf("%s init answers %q; that is not a driver", path, output)
	}
	return nil
}
