package facts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// LeftOut is an entry of the directory that is not a fact.
type LeftOut struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Scan returns the facts that there are, by their names, and what was left out.
// Names that begin with a dot are nobody's business: that is what replaces a file by
// rename(2) until then.
func (d Dir) Scan() (all []Fact, out []LeftOut, err error) {
	root, err := os.OpenRoot(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("the directory of facts: %w", err)
	}
	defer root.Close()
	names, err := namesIn(root)
	if err != nil {
		return nil, nil, fmt.Errorf("list the directory of facts: %w", err)
	}
	byID := map[uint64]string{}
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		file, f, err := d.open(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed just now
		} else if err != nil {
			out = append(out, LeftOut{name, err.Error()})
			continue
		}
		file.Close()
		if other, taken := byID[ID(name)]; taken {
			out = append(out, LeftOut{name, "it has the same id as " + other})
			continue
		}
		byID[ID(name)] = name
		all = append(all, f)
	}
	return all, out, nil
}

// MaxEntries is how many entries the directory can have. Each of them is looked at
// when somebody lists a volume, and meanwhile others wait.
const MaxEntries = 2000

func namesIn(root *os.Root) ([]string, error) {
	directory, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	names, err := directory.Readdirnames(MaxEntries + 1)
	if len(names) > MaxEntries {
		return nil, fmt.Errorf("it has more than %d entries", MaxEntries)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(names)
	return names, err
}
