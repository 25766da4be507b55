package podfuse

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"example.com/pod-info-fuse/survive/volume"
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

// Who has misspelt a name, or has asked for the two volumes in different ways, reads which volumes
// there are.
func TestBesideServer(t *testing.T) {
	const flex, csi = "/kubelet/pods/UID/volumes/example.com~pod-fuse/", "/kubelet/pods/UID/volumes/kubernetes.io~csi/"
	for _, test := range []struct {
		server, want string
		clients      []string
	}{
		{flex + "data-server", "", nil},
		{flex + "data-server", `; the pod has "data"`, []string{flex + "data"}},
		{csi + "data-server/mount", `; the pod has "data"`, []string{csi + "data/mount"}},
		{flex + "data-server", `; the pod has "data" by CSI, which a server volume by FlexVolume cannot serve`, []string{csi + "data/mount"}},
		{csi + "data-server/mount", `; the pod has "data" by FlexVolume, which a server volume by CSI cannot serve`, []string{flex + "data"}},
		{flex + "data-server", "5 of them and others", []string{flex + "a", flex + "b", flex + "c", flex + "d", flex + "e", flex + "f"}},
		{"/by/hand", `; the pod has "data"`, []string{"/by/data"}},
	} {
		l := Layout{t.TempDir()}
		for uid, clients := range map[string][]string{"11111111-2222-3333-4444-555555555555": test.clients, "21111111-2222-3333-4444-555555555555": {"/another/pods"}} {
			for _, dir := range clients {
				if err := os.MkdirAll(l.Clients().Dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := l.Clients().Put(volume.Record{Dir: dir, PodUID: uid}); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := l.BesideServer(volume.Record{Dir: test.server, PodUID: "11111111-2222-3333-4444-555555555555"})
		got, hinted := strings.CutSuffix(got, "; for a claim, serves takes the persistent volume's name")
		if hinted != (test.want != "") {
			t.Errorf("%s: %q: is what serves takes for a claim said? %v", test.server, got, hinted)
		}
		if named := strings.Count(got, `"`) / 2; named == 5 && strings.HasSuffix(got, " and others") {
			got = fmt.Sprintf("%d of them and others", named)
		}
		if got != test.want {
			t.Errorf("%s beside %q: %q, want %q", test.server, test.clients, got, test.want)
		}
	}
}
