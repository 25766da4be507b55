package survive

import (
	"errors"
	"strings"
	"testing"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/survive/volume"
)

// By CSI, it is answered with INVALID_ARGUMENT, whatever the driver's error is made of.
func TestARefusalOfCheckIsTheCallersError(t *testing.T) {
	c := CallOuts{Node: Node{RunDir: t.TempDir()}, Check: func(flex.Options, *volume.Record) error { return errors.New("no such zone") }}
	answer := flex.Call(c, []string{"mount", t.TempDir(), `{"kubernetes.io/pod.uid": "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"}`})
	if answer.Status != flex.Failure || answer.Message != "no such zone" || !answer.Invalid {
		t.Errorf("answer %+v", answer)
	}
}

func TestADriverWithoutAFileSystemIsAnError(t *testing.T) {
	if files := (Node{}).fileSystem(Site{}); files != nil {
		t.Errorf("made %v of nothing", files)
	}
}

func TestAVolumeOfNoPodHasNoPodsName(t *testing.T) {
	for h, want := range map[*Healed]string{
		{Path: "/mnt"}: "healed: /mnt",
		{Path: "/mnt", Volume: volume.Record{PodUID: "u", PodNamespace: "shop", PodName: "web-0"}}: "healed: /mnt, pod shop/web-0",
		{Path: "/mnt", Volume: volume.Record{PodUID: "u"}}:                                         "healed: /mnt",
	} {
		if got := h.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAConfigThatNoProcessCanBeGivenIsAnError(t *testing.T) {
	for config, good := range map[string]bool{"": true, strings.Repeat("c", 64<<10): true, strings.Repeat("c", 64<<10+1): false, "a\x00b": false} {
		if err := checkConfig(config); (err == nil) != good {
			t.Errorf("a config of %d bytes: %v", len(config), err)
		}
	}
}
