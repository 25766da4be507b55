package pod

import (
	"strings"
	"testing"

	"example.com/pod-info-fuse/podfuse/wire"
)

// What libfuse passes for a mount of bindfs(1) with several options.
const usualOptions = `rw,nosuid,nodev,default_permissions,allow_other,max_read=131072,fsname=/a\,b,subtype=bindfs`

func TestOptions(t *testing.T) {
	usual := wire.Options{DefaultPermissions: true, MaxRead: 131072, Subtype: "bindfs"}
	with := func(change func(o *wire.Options)) wire.Options {
		changed := usual
		change(&changed)
		return changed
	}
	for _, test := range []struct {
		what, options string
		want          wire.Options
		warning, err  string
	}{
		{"as they are", usualOptions, usual, "", ""},
		{"read-only", strings.Replace(usualOptions, "rw", "ro", 1), with(func(o *wire.Options) { o.ReadOnly = true }), "", ""},
		{"the last of ro and rw counts", usualOptions + ",ro,rw,ro", with(func(o *wire.Options) { o.ReadOnly = true }), "", ""},
		{"no max_read", strings.Replace(usualOptions, "max_read=131072,", "", 1), with(func(o *wire.Options) { o.MaxRead = 0 }), "", ""},
		{"no default_permissions", strings.Replace(usualOptions, "default_permissions,", "", 1), with(func(o *wire.Options) { o.DefaultPermissions = false }), "", ""},
		{"an escaped subtype", strings.Replace(usualOptions, "=bindfs", `=a\\b\,c`, 1), with(func(o *wire.Options) { o.Subtype = `a\b,c` }), "", ""},
		{"a subtype with =", usualOptions + "=2", with(func(o *wire.Options) { o.Subtype = "bindfs=2" }), "", ""},
		{"what a library has tried by itself", usualOptions + ",fd=5,rootmode=40000,user_id=0,group_id=0", usual, "", ""},
		{"as of libfuse 2", usualOptions + ",nonempty,atime", usual, "", ""},
		{"auto_unmount, as it is always", usualOptions + ",auto_unmount", usual, "", ""},
		{"for other programs", usualOptions + ",x-gvfs-hide,x-systemd.automount", usual, "", ""},
		{"empty ones", "," + usualOptions + ",,", usual, "", ""},
		{"suid", usualOptions + ",suid", usual, "unsafe option suid ignored", ""},
		{"dev", usualOptions + ",dev", usual, "unsafe option dev ignored", ""},
		{"noexec", usualOptions + ",noexec", with(func(o *wire.Options) { o.NoExec = true }), "", ""},
		{"the last of noexec and exec counts", usualOptions + ",noexec,exec", usual, "", ""},
		{"what a program misses", usualOptions + ",sync", usual, "option sync ignored: pod-fuse does not support it", ""},
		{"unknown", usualOptions + ",big_writes", wire.Options{}, "", "unknown option 'big_writes'"},
		{"allow_root, which a library does by itself", usualOptions + ",allow_root", wire.Options{}, "", "unknown option 'allow_root'"},
		{"user=, as fusermount3 does", usualOptions + ",user=me", wire.Options{}, "", "unknown option 'user=me'"},
		{"SELinux's", usualOptions + ",context=a", wire.Options{}, "", "unknown option 'context=a'"},
		{"a flag with a value", usualOptions + ",ro=1", wire.Options{}, "", "unknown option 'ro=1'"},
		{"a value without one", usualOptions + ",max_read", wire.Options{}, "", "unknown option 'max_read'"},
		{"max_read, no number", usualOptions + ",max_read=1k", wire.Options{}, "", "option 'max_read=1k' has no valid number of bytes"},
		{"max_read, too much", usualOptions + ",max_read=4294967296", wire.Options{}, "", "option 'max_read=4294967296' has no valid number of bytes"},
		{"a block device", usualOptions + ",blkdev", wire.Options{}, "", "option blkdev is privileged: a volume is no block device"},
		{"its block size", usualOptions + ",blksize=512", wire.Options{}, "", "option blksize is privileged: a volume is no block device"},
		{"an escape where there is none", `ro\,rw`, wire.Options{}, "", `unknown option 'ro\'`},
	} {
		got, warnings, err := parseOptions(test.options)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if got != test.want || strings.Join(warnings, "; ") != test.warning || message != test.err {
			t.Errorf("%s: %s:\n got %+v, warnings %q, error %q\nwant %+v, warnings %q, error %q",
				test.what, test.options, got, warnings, message, test.want, test.warning, test.err)
		}
	}
}

// An option means the same, whatever is before it, and none hides one that is refused.
func FuzzMountOptions(f *testing.F) {
	f.Add(usualOptions)
	f.Add(`ro,subtype=a\\,max_read=1`)
	f.Add(`fsname=\`)
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := parseOptions(text)
		if err != nil {
			if got != (wire.Options{}) {
				t.Errorf("%q is refused, and yet %+v", text, got)
			}
			return
		}
		if after, _, err := parseOptions(`fsname=a\,b,subtype=c,x-d,` + text); err != nil {
			t.Errorf("%q is refused after others: %v", text, err)
		} else if got.Subtype != "" && after != got {
			t.Errorf("%q: %+v, and after others %+v", text, got, after)
		}
		if _, _, err := parseOptions("big_writes," + text); err == nil {
			t.Errorf("big_writes is taken before %q", text)
		}
		if !strings.HasSuffix(text, `\`) {
			if last, _, err := parseOptions(text + ",ro"); err != nil || !last.ReadOnly {
				t.Errorf("%q with ro: %+v, %v", text, last, err)
			}
			if _, _, err := parseOptions(text + ",big_writes"); err == nil {
				t.Errorf("big_writes is taken after %q", text)
			}
		}
	})
}
