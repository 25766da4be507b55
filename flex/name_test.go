package flex_test

import (
	"testing"

	"example.com/pod-info-fuse/flex"
)

func TestNameOf(t *testing.T) {
	for path, want := range map[string]string{
		"/plugins/example.com~pod-info-fuse/pod-info-fuse": "example.com/pod-info-fuse",
		"/plugins/a~b_c/anything":                          "a/b_c",
		"/usr/local/bin/pod-info-fuse":                     "",
		"/plugins/~driver/driver":                          "",
		"/plugins/vendor~/driver":                          "",
		"/plugins/.hidden~driver/driver":                   "",
		"/plugins/a~b~c/b":                                 "",
		"pod-info-fuse":                                    "",
	} {
		name, ok := flex.NameOf(path)
		if ok != (want != "") || ok && name.String() != want {
			t.Errorf("%s: %v %q, want %q", path, ok, name, want)
		}
	}
}

func TestParseName(t *testing.T) {
	for text, dir := range map[string]string{
		"example.com/pod-info-fuse": "example.com~pod-info-fuse",
		"no-vendor":                 "",
		"a/b/c":                     "",
		"../driver":                 "",
		"a/..":                      "",
		"a/b c":                     "",
		"a/b\n":                     "",
		"":                          "",
		"/":                         "",
	} {
		name, err := flex.ParseName(text)
		if (err == nil) != (dir != "") || err == nil && name.Dir() != dir {
			t.Errorf("%q: %v %q, want %q", text, err, name.Dir(), dir)
		}
	}
}

func TestCSI(t *testing.T) {
	name, err := flex.ParseName("example.com/pod-info-fuse")
	if got := name.CSI(); err != nil || got != "pod-info-fuse.example.com" {
		t.Errorf("%v: %q", err, got)
	}
	// A kubelet has these places in its own code.
	if got := name.CSISocket("/k"); got != "/k/plugins/pod-info-fuse.example.com/csi.sock" {
		t.Errorf("socket %q", got)
	}
	if got := name.CSIRegistration("/k"); got != "/k/plugins_registry/pod-info-fuse.example.com-reg.sock" {
		t.Errorf("registration %q", got)
	}
}
