package selinux

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultLabel is of the type that containers own. Without categories, it is
// open to all of them.
const DefaultLabel = "system_u:object_r:container_file_t:s0"

// CheckLabel refuses a text that no policy can have as a label (user:role:type, mostly with
// :level), or that could end the mount option in which it stands.
func CheckLabel(label string) error {
	const maxLabel = 1000 // all options of a mount share a page of memory
	switch parts := strings.Split(label, ":"); {
	case len(label) > maxLabel:
		return fmt.Errorf("%.40q... is longer than %d bytes", label, maxLabel)
	case strings.TrimLeft(label, inLabel) != "":
		return fmt.Errorf("%q has other characters than letters, digits and . , : - _", label)
	case len(parts) < 3, slices.Contains(parts, ""):
		return fmt.Errorf("%q is not of the form user:role:type:level", label)
	}
	return nil
}

const inLabel = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:-_"

// LabelOf returns the label that a file system was mounted with, from the super
// options that mountinfo has of it, "" if it was mounted with none. The kernel
// quotes a label that has a comma (security/selinux/hooks.c, show_sid).
func LabelOf(superOptions string) string {
	quoted := false
	options := strings.FieldsFunc(superOptions, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ',' && !quoted
	})
	for _, option := range options {
		if label, ok := strings.CutPrefix(option, "context="); ok {
			return strings.Trim(label, `"`)
		}
	}
	return ""
}
