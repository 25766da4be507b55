package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/install"
)

// delivery is what flags say of facts for the node's directory.
type delivery struct {
	from  []string
	fixed map[string]string
}

func factsFlags(set *pflag.FlagSet) *delivery {
	d := &delivery{}
	set.StringArrayVar(&d.from, "facts-from", nil, "`DIR` whose files become facts of the node, such as a mounted ConfigMap; can be repeated")
	set.StringToStringVar(&d.fixed, "fact", nil, "a fact of the node, `NAME=VALUE`; can be repeated")
	return d
}

func (d *delivery) given() bool { return len(d.from) > 0 || len(d.fixed) > 0 }

// open opens the directories: below another root directory, their paths are others.
func (d *delivery) open() (facts install.Facts, err error) {
	facts.Fixed = d.fixed
	for _, path := range d.from {
		root, err := os.OpenRoot(path)
		if err != nil {
			return facts, fmt.Errorf("facts to deliver: %w", err)
		}
		facts.From = append(facts.From, root)
	}
	return facts, nil
}
