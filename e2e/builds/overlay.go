package builds

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Build builds a program, by its import path: the product, where names is "", or what the builds
// of these names, with blanks between them, and further edits make of it.
func Build(path, program, ldflags, names string, edits ...Edit) error {
	args := []string{"build", "-buildvcs=false", "-ldflags", ldflags, "-o", path}
	if names != "" || len(edits) > 0 {
		dir, err := os.MkdirTemp("", "overlay-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		overlay, err := Overlay(dir, names, edits...)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	command := exec.Command("go", append(args, program)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s %s: %w\n%s", program, names, err, output)
	}
	return nil
}

// Overlay writes a file for -overlay into a directory, and returns its path. The file is for the
// builds of these names, with blanks between them, or for "all", and for further edits.
func Overlay(dir, names string, edits ...Edit) (path string, err error) {
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	o := overlay{dir: dir, root: filepath.Dir(string(module))}
	if err := o.inherit(); err != nil {
		return "", err
	}
	if names == "all" {
		names = strings.Join(slices.Sorted(maps.Keys(builds)), " ")
	}
	var all []Edit
	for name := range strings.FieldsSeq(names) {
		of, is := builds[name]
		if !is {
			return "", fmt.Errorf("there is no build %q", name)
		}
		all = append(all, of...)
		if err := o.add(name); err != nil {
			return "", err
		}
	}
	for _, e := range append(all, edits...) {
		if err := o.edit(e); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// overlay is what is in the place of the repository's files.
type overlay struct {
	dir, root string            // where it is written, and the repository
	Replace   map[string]string // the paths of files, and of those in their places
}

// inherit begins with the overlay that GOFLAGS has, as for a mutant, whose tests build such
// builds. Go takes one only.
func (o *overlay) inherit() error {
	for flag := range strings.FieldsSeq(os.Getenv("GOFLAGS")) {
		if path, is := strings.CutPrefix(flag, "-overlay="); is {
			list, err := os.ReadFile(path)
			if err == nil {
				err = json.Unmarshal(list, o)
			}
			return err
		}
	}
	o.Replace = map[string]string{}
	return nil
}

// add adds the files of a build, if it has any.
func (o *overlay) add(name string) error {
	of := filepath.Join(o.root, "e2e/builds/testdata", name)
	if _, err := os.Stat(of); err != nil {
		return nil
	}
	return filepath.WalkDir(of, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			o.Replace[filepath.Join(o.root, strings.TrimPrefix(path, of))] = path
		}
		return err
	})
}

// edit writes the file that an edit makes of another.
func (o *overlay) edit(e Edit) error {
	file := filepath.Join(o.root, e.File)
	from := o.Replace[file]
	if from == "" {
		from = file
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if n := strings.Count(string(text), e.Old); n != 1 {
		return fmt.Errorf("%s has %q %d times", e.File, e.Old, n)
	}
	// Not .go, or those that are written into the repository would be packages of it.
	o.Replace[file] = filepath.Join(o.dir, strings.ReplaceAll(e.File, "/", "+")+".txt")
	return os.WriteFile(o.Replace[file], []byte(strings.Replace(string(text), e.Old, e.New, 1)), 0o600)
}
