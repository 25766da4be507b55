package proc

import (
	"fmt"
	"os"
	"strings"
)

// Status has the lines of /proc/PID/status, by their names (man 5 proc_pid_status).
type Status map[string]string

// StatusIn reads the file status in a process's directory, such as /proc/1.
func StatusIn(dir string) (Status, error) {
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return nil, err
	}
	return ParseStatus(string(text)), nil
}

// ParseStatus reads the content of the file. Values are without white space around them.
func ParseStatus(text string) Status {
	s := Status{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		s[name] = strings.TrimSpace(value)
	}
	return s
}

// SharesUsers tells whether a process is in our user namespace. In one of its own, anybody
// can be any user, and has all capabilities.
func SharesUsers(pid int) bool {
	ours, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return false
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	return err == nil && theirs == ours
}
