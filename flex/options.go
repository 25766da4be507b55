package flex

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Options that the kubelet itself puts into a call-out
// (kubernetes v1.34, pkg/volume/flexvolume/driver-call.go).
const (
	OptionVolumeName     = "kubernetes.io/pvOrVolumeName"
	OptionPodName        = "kubernetes.io/pod.name"
	OptionPodNamespace   = "kubernetes.io/pod.namespace"
	OptionPodUID         = "kubernetes.io/pod.uid"
	OptionServiceAccount = "kubernetes.io/serviceAccount.name"

	// kubeletPrefix is the name space that the API server keeps pod authors
	// out of.
	kubeletPrefix = "kubernetes.io/"
)

// Options are the options of a call-out: those of the kubelet and those of
// the pod's author. They may hold secrets, so they print as their keys only.
type Options struct {
	values map[string]string
}

// ParseOptions decodes the JSON object of a call-out, which has strings only. Its errors have no
// values in them.
func ParseOptions(text string) (o Options, err error) {
	if err := json.Unmarshal([]byte(text), &o.values); err != nil {
		return Options{}, fmt.Errorf("options are not a JSON object of strings: %w", err)
	}
	return o, nil
}

// Get returns the value of exactly this key, or "".
func (o Options) Get(key string) string { return o.values[key] }

// Lookup returns the value of exactly this key, and whether there is one.
func (o Options) Lookup(key string) (string, bool) {
	value, present := o.values[key]
	return value, present
}

// Own returns the options outside of the kubelet's name space, kubernetes.io/:
// those that a pod's author wrote for the driver, in the order of their keys.
func (o Options) Own() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, key := range slices.Sorted(maps.Keys(o.values)) {
			if !strings.HasPrefix(key, kubeletPrefix) && !yield(key, o.values[key]) {
				return
			}
		}
	}
}

// String lists the keys. Values may be secrets.
func (o Options) String() string {
	return fmt.Sprintf("options%q", slices.Sorted(maps.Keys(o.values)))
}

// GoString keeps the values out of %#v as well.
func (o Options) GoString() string { return o.String() }
