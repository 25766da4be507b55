package driver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/volume"
)

// newRecord makes a volume's record of what the kubelet said. This is where
// options are trusted or refused: the pod's author wrote some of them, and the
// kubelet merges those last (kubernetes v1.34,
// pkg/volume/flexvolume/driver-call.go).
// common are the facts that every volume has.
func newRecord(dir string, options flex.Options, common []string) (volume.Record, error) {
	for key := range options.Own() {
		if key != optionFacts {
			return volume.Record{}, fmt.Errorf("option %q is not known; remove it from the pod's flexVolume", key)
		}
	}
	facts, err := factsOf(options, common)
	if err != nil {
		return volume.Record{}, err
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
		Facts:          facts,
		Mounted:        time.Now().UTC().Round(0),
	}
	if slices.Contains(facts, volume.FactBootID) {
		if record.BootID, err = bootID(); err != nil {
			return volume.Record{}, err
		}
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
