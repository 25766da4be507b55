package driver

import (
	"fmt"
	"strings"
	"time"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/volume"
)

// newRecord makes a volume's record of what the kubelet said. This is where
// options are trusted or refused: the pod's author wrote some of them, and the
// kubelet merges those last (kubernetes v1.34,
// pkg/volume/flexvolume/driver-call.go).
func newRecord(dir string, options flex.Options) (volume.Record, error) {
	for key := range options.Own() {
		return volume.Record{}, fmt.Errorf("option %q is not known; remove it from the pod's flexVolume", key)
	}
	uid, present := options.Lookup(flex.OptionPodUID)
	if !present {
		return volume.Record{}, fmt.Errorf("option %q is missing; the kubelet sets it", flex.OptionPodUID)
	}
	record := volume.Record{
		Dir:            dir,
		PodUID:         uid,
		PodName:        options.Get(flex.OptionPodName),
		PodNamespace:   options.Get(flex.OptionPodNamespace),
		ServiceAccount: options.Get(flex.OptionServiceAccount),
		Name:           options.Get(flex.OptionVolumeName),
		Mounted:        time.Now().UTC().Round(0),
	}
	if err := record.Check(); err != nil {
		return volume.Record{}, fmt.Errorf("mount: %w", err)
	}
	if _, rest, ok := volume.SplitDir(dir); ok && !strings.HasPrefix(rest, uid+"/") {
		owner, _, _ := strings.Cut(rest, "/")
		return volume.Record{}, fmt.Errorf("option %q is %s, but directory %q belongs to pod %.40q", flex.OptionPodUID, uid, dir, owner)
	}
	return record, nil
}
