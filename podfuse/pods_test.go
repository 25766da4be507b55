package podfuse

import (
	"slices"
	"strings"
	"testing"
)

func TestPods(t *testing.T) {
	const (
		uid    = "0123456789abcdef0123456789abcdef"
		dashed = "01234567-89ab-cdef-0123-456789abcdef"
		other  = "99999999-89ab-cdef-0123-456789abcdef"
	)
	slice := strings.ReplaceAll(dashed, "-", "_") + ".slice"
	for cgroups, want := range map[string][]string{
		"": nil, "0::/\n": nil, "pod": nil, "::": nil,
		"0::/kubepods/pod" + dashed + "\n":                                                       {uid},
		"0::/kubepods/burstable/pod" + dashed + "/abc\n":                                         {uid},
		"0::/kubepods/pod" + uid + "/x":                                                          {uid}, // a static pod
		"0::/kubepods.slice/kubepods-pod" + strings.ToUpper(uid) + ".slice\n":                    {uid},
		"0::/kubepods.slice/kubepods-pod" + slice + "/cri-containerd-1.scope\n":                  {uid},
		"0::/../../kubelet-kubepods-besteffort-pod" + slice + "/cri-containerd-1.scope":          {uid},
		"0::/kubepods/pod" + dashed + "/x/pod" + other + "\n":                                    {uid}, // made inside
		"12:cpu:/kubepods/pod" + dashed + "\n1:name=systemd:/kubepods/pod" + dashed + "\n0::/\n": {uid, uid},
		"1:name=a:b:/pod" + dashed + "\n":                                                        {uid},
		"0::/kubepods/pod" + dashed[1:] + "/x\n":                                                 nil,
		"0::/kubepods.slice/kubepods-pod" + dashed + ".slice\n":                                  nil, // systemd's names have no dashes in a part
		"0::/x/mypod" + dashed + "\n":                                                            nil,
		"0::/pod-fuse-example.com~pod-fuse\n":                                                    nil,
		"0::/system.slice/podman.service\n":                                                      nil,
		"0::/user.slice/pod-something\n":                                                         nil,
		"0::/system.slice/podman-pod" + strings.Repeat("0", 64) + ".slice/x.scope":               nil,
	} {
		if got := Pods([]byte(cgroups)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", cgroups, got, want)
		}
	}
}
