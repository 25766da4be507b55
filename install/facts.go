package install

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// Facts are what an installer delivers to the node's directory of facts. It keeps
// a list there of what it has delivered, to remove that again: the rest of the
// directory is the operator's.
type Facts struct {
	// From are directories whose files are facts, as those of a ConfigMap or of the
	// downward API. Empty files are none: that is what a label gives that is not there.
	From  []*os.Root
	Fixed map[string]string // by their names
}

// Deliver makes the target's directory of facts have them, and no other that was
// delivered for it before. Each is replaced in one step.
func (f Facts) Deliver(t Target) error {
	dir, err := t.FactsDir()
	if err != nil {
		return fmt.Errorf("find the directory of facts: %w", err)
	}
	wanted, err := f.wanted()
	if err != nil {
		return fmt.Errorf("read the facts to deliver: %w", err)
	}
	if dir == "" {
		if len(wanted) > 0 {
			return errors.New("facts are switched off in the driver's configuration (factsDir), and cannot be delivered")
		}
		return nil
	}
	d, err := t.deliveryTo(dir)
	if err != nil || len(wanted) == 0 && len(d.Names) == 0 {
		return err
	}
	if err := d.make(); err != nil {
		return err
	}
	var problem error
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if err := d.put(name, wanted[name]); err != nil {
			problem = errors.Join(problem, fmt.Errorf("deliver fact %q: %w", name, err))
		}
	}
	for _, name := range slices.Clone(d.Names) {
		if _, still := wanted[name]; !still {
			problem = errors.Join(problem, d.remove(name))
		}
	}
	return problem
}

// wanted reads what is to be delivered.
func (f Facts) wanted() (map[string][]byte, error) {
	wanted := map[string][]byte{}
	for _, root := range f.From {
		entries, err := fs.ReadDir(root.FS(), ".")
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			name := entry.Name()
			info, err := root.Stat(name)
			if strings.HasPrefix(name, ".") || err == nil && !info.Mode().IsRegular() {
				continue
			}
			content, err := root.ReadFile(name)
			if err != nil {
				return nil, err
			}
			if len(content) > 0 {
				wanted[name] = content
			}
		}
	}
	for name, value := range f.Fixed {
		if value != "" {
			wanted[name] = []byte(value + "\n")
		}
	}
	return wanted, nil
}
