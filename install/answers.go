package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
)

// initTime is how long a driver may take to answer init. Tests have less time.
var initTime = 10 * time.Second

// answers executes the call-out init, as the kubelet will: a binary for another
// machine, or on a file system that executes nothing, must not become the driver.
func answers(path string) error {
	output, err := run(initTime, path, "init")
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
