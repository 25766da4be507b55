package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/internal/facts"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
)

// factsReport is the report of status on the operator's facts, as JSON.
type factsReport struct {
	Dir     string          `json:"dir,omitempty"` // none: the configuration says so
	Count   int             `json:"count"`
	LeftOut []facts.LeftOut `json:"leftOut,omitempty"`
	Stale   bool            `json:"stale,omitempty"`
	Error   string          `json:"error,omitempty"`
}

func factsSection(n survive.Node) command.Section {
	r := &factsReport{Dir: n.Input}
	s := command.Section{Name: "facts", Value: r}
	add := func(name, text string) { s.Lines = append(s.Lines, [2]string{name, text}) }
	if r.Dir == "" {
		add("facts", "off")
		return s
	}
	var all []facts.Fact
	directory, err := mount.OpenLocal(n.Input)
	if err == nil {
		defer directory.Close()
		all, r.LeftOut, err = fs.FactsIn(directory).Scan()
	}
	r.Stale = n.Inside().InputStale()
	r.Count = len(all)
	add("facts", fmt.Sprintf("%d in %s", r.Count, r.Dir))
	if r.Stale {
		add("facts, problem", "the directory is a new one, which the daemon does not have yet")
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Error = err.Error()
		add("facts, problem", command.Printable(r.Error, 0))
	}
	for _, l := range r.LeftOut {
		add("facts, left out", command.Printable(l.Name, 80)+": "+l.Reason)
	}
	return s
}

// deliver has the facts for the node's directory, from flags of install.
func deliver(set *pflag.FlagSet) func(flex.Name, survive.Settings) error {
	d := facts.Delivery{Reserved: fs.FactsIn(nil).Reserved}
	set.Func("facts-from", "`DIR` whose files become facts of the node, such as a mounted ConfigMap; can be repeated", func(path string) error {
		root, err := os.OpenRoot(path)
		d.From = append(d.From, root)
		return err
	})
	set.StringToStringVar(&d.Fixed, "fact", nil, "a fact of the node, `NAME=VALUE`; can be repeated")
	return func(driver flex.Name, settings survive.Settings) error {
		err := local(settings.Input)
		if err == nil {
			return d.To(settings.Input, driver.Dir())
		}
		if len(d.From) == 0 && len(d.Fixed) == 0 {
			return nil
		}
		return err
	}
}

// local returns an error if the directory of facts is there, but not on a local file system:
// an installer that goes there may wait for ever, so none has delivered anything there.
func local(dir string) error {
	directory, err := mount.OpenLocal(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	directory.Close()
	return err
}

func withdraw(driver flex.Name, settings survive.Settings) error {
	if local(settings.Input) != nil {
		return nil
	}
	if err := facts.Withdraw(settings.Input, driver.Dir()); err != nil {
		return fmt.Errorf("remove the facts that were delivered: %w", err)
	}
	return nil
}
