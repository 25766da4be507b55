package selinux

import "strings"

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
