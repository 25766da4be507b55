package driver

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/volume"
)

// optionFacts is the one option of a pod's author: names of facts, with commas
// between them.
const optionFacts = "facts"

// factsOf returns the facts that a volume has: those of all volumes, and what its
// pod asks for, each once and in a fixed order.
func factsOf(options flex.Options, common []string) (facts []string, err error) {
	asked, err := askedFor(options.Get(optionFacts))
	if err != nil {
		return nil, err
	}
	for _, name := range volume.AllFacts() {
		if slices.Contains(common, name) || slices.Contains(asked, name) {
			facts = append(facts, name)
		}
	}
	return facts, nil
}

// askedFor reads the option. A pod can ask for what is its own; what it may know of
// the node is the operator's decision.
func askedFor(list string) (names []string, err error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(volume.PodFacts[:], name) {
			return nil, fmt.Errorf("option %q has %.70q; a pod can ask for %s", optionFacts, name, strings.Join(volume.PodFacts[:], ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

// bootID tells this start of the node from others (man 5 proc_sys_kernel). The
// daemon could not read it.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("fact %s: %w", volume.FactBootID, err)
	}
	return strings.TrimSpace(string(id)), nil
}
