package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/survive/volume"
)

// optionFacts is the one option of a pod's author: names of facts, with commas
// between them.
const optionFacts = "facts"

// ask writes into a volume's record which files it has beside those of every volume: the
// operator's choice for all of them, and what the pod asks for. A pod can ask for facts of
// its own; the operator decides what it may know of the node.
func ask(options flex.Options, operators []string, record *volume.Record) error {
	asked := slices.Clone(operators)
	for key, list := range options.Own() {
		if key != optionFacts {
			return fmt.Errorf("option %q is not known; remove it from the pod's volume", key)
		}
		if strings.TrimSpace(list) == "" {
			continue
		}
		for name := range strings.SplitSeq(list, ",") {
			name = strings.TrimSpace(name)
			if !slices.Contains(fs.PodFacts(), name) {
				return fmt.Errorf("option %q has %.70q; a pod can ask for %s", optionFacts, name, strings.Join(fs.PodFacts(), ", "))
			}
			if !slices.Contains(asked, name) { // a name that is asked for twice is recorded once
				asked = append(asked, name)
			}
		}
	}
	attributes := fs.Attributes{Facts: asked}
	if slices.Contains(asked, fs.FactBootID) {
		// It tells this start of the node from others (man 5 proc_sys_kernel). The serving
		// processes may not read it.
		id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return fmt.Errorf("fact %s: %w", fs.FactBootID, err)
		}
		attributes.BootID = strings.TrimSpace(string(id))
	}
	var err error
	record.Attributes, err = attributes.Encode()
	return err
}
