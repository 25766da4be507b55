package flex

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The options that the kubelet itself puts into a call-out
// (kubernetes v1.34, pkg/volume/flexvolume/driver-call.go).
const (
	OptionFSType         = "kubernetes.io/fsType"
	OptionReadWrite      = "kubernetes.io/readwrite" // "ro" or "rw"
	OptionVolumeName     = "kubernetes.io/pvOrVolumeName"
	OptionFSGroup        = "kubernetes.io/mounterArgs.FsGroup"
	OptionPodName        = "kubernetes.io/pod.name"
	OptionPodNamespace   = "kubernetes.io/pod.namespace"
	OptionPodUID         = "kubernetes.io/pod.uid"
	OptionServiceAccount = "kubernetes.io/serviceAccount.name"

	// OptionSecretPrefix is followed by a key of the volume's secret; the value
	// is base64.
	OptionSecretPrefix = "kubernetes.io/secret/"

	// kubeletPrefix is the name space that the API server keeps pod authors
	// out of.
	kubeletPrefix = "kubernetes.io/"
)

// Options are the options of a call-out: those of the kubelet and those of
// the pod's author. They may hold secrets, so they print as their keys only.
type Options struct {
	values map[string]string
}

// ParseOptions decodes the JSON object of a call-out. It refuses what the
// kubelet never sends: text that is not UTF-8, a key that occurs twice, a
// value that is not a string, anything after the object. Its errors name keys
// but never values.
func ParseOptions(text string) (Options, error) {
	if !utf8.ValidString(text) {
		return Options{}, errors.New("options are not UTF-8")
	} else if !json.Valid([]byte(text)) {
		return Options{}, errors.New("options are not JSON")
	}
	decoder := json.NewDecoder(strings.NewReader(text)) // an error is of a number now, which is refused anyway
	if token, _ := decoder.Token(); token != json.Delim('{') {
		return Options{}, errors.New("options are not a JSON object")
	}
	values := map[string]string{}
	for decoder.More() {
		token, _ := decoder.Token()
		key := token.(string)
		token, _ = decoder.Token()
		value, isString := token.(string)
		if !isString {
			return Options{}, fmt.Errorf("option %q is not a string", key)
		} else if _, twice := values[key]; twice {
			return Options{}, fmt.Errorf("option %q occurs twice", key)
		}
		values[key] = value
	}
	return Options{values: values}, nil
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
