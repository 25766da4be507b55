package pod

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"example.com/pod-info-fuse/podfuse/wire"
)

// What becomes of the options that fusermount3(1) takes and a request has no field for.
var (
	// meaningless options are always on, or decided by the driver or the kernel.
	meaningless = words("rw nosuid nodev async atime noatime nodiratime norelatime nostrictatime symfollow " +
		"allow_other auto_unmount nonempty")
	// unmet options have an effect that a program misses, so that it is told.
	unmet = words("nosymfollow sync dirsync")
	// forRoot options are ignored by fusermount3 as well, for all users but root.
	forRoot = words("suid dev")
	// private options belong to a mount(2) that the program has tried by itself.
	private = words("fd rootmode user_id group_id fsname")
)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// parseOptions reads the text of option -o as fusermount3 does (libfuse, util/fusermount.c), and
// refuses what fusermount3 refuses, above all what it does not know. The warnings name options that
// have no effect.
//
// auto_unmount has no effect, because the driver always detaches the mount of a program that has
// died. fusermount3 waits for that until its socket is closed; such a process could take away the
// next program's mount here.
func parseOptions(text string) (o wire.Options, warnings []string, err error) {
	for text != "" {
		var option string
		option, text = cutOption(text)
		name, value, hasValue := strings.Cut(option, "=")
		switch {
		case option == "", strings.HasPrefix(option, "x-"), meaningless[option], hasValue && private[name]:
			if option == "rw" {
				o.ReadOnly = false
			}
		case option == "ro":
			o.ReadOnly = true
		case option == "exec", option == "noexec":
			o.NoExec = option == "noexec"
		case option == "default_permissions":
			o.DefaultPermissions = true
		case name == "subtype" && hasValue:
			o.Subtype = unescape(value)
		case name == "max_read" && hasValue:
			// man 8 mount.fuse; the kernel has an unsigned number of 32 bits for it.
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil || n > math.MaxInt32 {
				return wire.Options{}, nil, fmt.Errorf("option '%s' has no valid number of bytes", option)
			}
			o.MaxRead = int(n)
		case forRoot[option]:
			warnings = append(warnings, fmt.Sprintf("unsafe option %s ignored", option))
		case unmet[option]:
			warnings = append(warnings, fmt.Sprintf("option %s ignored: pod-fuse does not support it", option))
		case option == "blkdev", name == "blksize" && hasValue:
			return wire.Options{}, nil, fmt.Errorf("option %s is privileged: a volume is no block device", name)
		default:
			return wire.Options{}, nil, fmt.Errorf("unknown option '%s'", option)
		}
	}
	return o, warnings, nil
}

// cutOption returns the first option, and the text after its comma. A backslash hides a comma
// in those two that libfuse escapes.
func cutOption(text string) (option, rest string) {
	escapes := strings.HasPrefix(text, "fsname=") || strings.HasPrefix(text, "subtype=")
	for i := 0; i < len(text); i++ {
		switch {
		case escapes && text[i] == '\\':
			i++
		case text[i] == ',':
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

func unescape(text string) string {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}
