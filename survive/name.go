package survive

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"example.com/pod-info-fuse/flex"
)

// CheckName returns an error if the driver cannot have an installation of this name: both
// its own name and that of the program are in the path of a socket. It checks the program's
// name, the version and the State, too.
func (d Driver) CheckName(name flex.Name) error {
	const longest = 107 // bytes (man 7 unix)
	if strings.TrimLeft(d.Program, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || d.Program == "" || d.Program[0] == '-' {
		return fmt.Errorf("the program's name %q does not consist of lower-case letters, digits and dashes", d.Program)
	}
	if len(d.Version) == 0 || len(d.Version) > 256 || !utf8.ValidString(d.Version) {
		return fmt.Errorf("the driver's version %.20q, of %d bytes, is no text of 1 to 256 bytes", d.Version, len(d.Version))
	}
	if more := len(d.NodeFor(name, Settings{}).path("control")) - longest; more > 0 {
		return fmt.Errorf("the driver's name %q has %d bytes, and its program's, %q, %d: together they are %d too long for the path of a socket",
			name, len(name.String()), d.Program, len(d.Program), more)
	}
	if d.State < 0 || d.State > mostState {
		return fmt.Errorf("the driver's State has %d bytes; it can have 0 to %d", d.State, mostState)
	}
	return nil
}
