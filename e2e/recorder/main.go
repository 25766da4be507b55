// Recorder stands in the driver's place, writes down how the kubelet calls it,
// and becomes the driver, so that the kubelet gets the answers it would get.
//
// Beside it lie .recorded, the driver itself, and .calls, which gets a line per
// call: the arguments as a JSON array. The kubelet overlooks names with a dot.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

func main() {
	err := record(filepath.Dir(os.Args[0]))
	// The kubelet reads one JSON object, whatever happened.
	message, _ := json.Marshal(map[string]string{"status": "Failure", "message": err.Error()})
	fmt.Printf("%s\n", message)
}

// record returns only if it failed.
func record(dir string) error {
	line, err := json.Marshal(os.Args[1:])
	if err != nil {
		return err
	}
	calls, err := os.OpenFile(filepath.Join(dir, ".calls"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// One write, so that calls at the same time do not mix.
	if _, err := calls.Write(append(line, '\n')); err != nil {
		return err
	}
	// With its own argv[0] the driver finds its name in it.
	recorded := filepath.Join(dir, ".recorded")
	return fmt.Errorf("exec %s: %w", recorded, syscall.Exec(recorded, os.Args, os.Environ()))
}
