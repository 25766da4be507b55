package selinux

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultLabel is of the type that containers own. Without categories, it is
// open to all of them.
const DefaultLabel = "system_u:object_r:container_file_t:s0"

// CheckLabel refuses what no policy can have as a label, user:role:type and
// mostly :level, and what could end the mount option that it becomes a part of.
func CheckLabel(label string) error {
	const maxLabel = 1000 // all options of a mount share a page of memory
	switch parts := strings.Split(label, ":"); {
	case len(label) > maxLabel:
		return fmt.Errorf("%.40q... is longer than %d bytes", label, maxLabel)
	case strings.ContainsFunc(label, notInLabel):
		return fmt.Errorf("%q has other characters than letters, digits and . , : - _", label)
	case len(parts) < 3, slices.Contains(parts, ""):
		return fmt.Errorf("%q is not of the form user:role:type:level", label)
	}
	return nil
}

func notInLabel(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune(".,:-_", r)
}

// typeOf returns a label's type, "" if it has none.
func typeOf(label string) string {
	if parts := strings.Split(label, ":"); len(parts) >= 3 {
		return parts[2]
	}
	return ""
}
