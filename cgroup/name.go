package cgroup

import (
	"fmt"
	"strings"
)

// prefix begins every name that this package gives.
const prefix = "pod-info-fuse-"

// scopeName is the name of the scope of a driver's process. A unit's name may
// have letters, digits and :-_.\ in it (systemd.unit(5)). As in systemd's own
// names, the slash becomes a dash and other characters \x and two hex digits.
// Two drivers may look alike by that, but never with the same PID.
func scopeName(driver string, pid int) string {
	var name strings.Builder
	name.WriteString(prefix)
	for _, c := range []byte(driver) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		switch {
		case c == '/':
			name.WriteByte('-')
		case letter, strings.IndexByte(":-_.", c) >= 0:
			name.WriteByte(c)
		default:
			fmt.Fprintf(&name, `\x%02x`, c)
		}
	}
	return fmt.Sprintf("%s-%d.scope", name.String(), pid)
}

// ownName is the name of a driver's own cgroup, in every hierarchy. The slash
// becomes a tilde, as in the kubelet's plugin directory.
func ownName(driver string) string {
	return prefix + strings.ReplaceAll(driver, "/", "~")
}
