package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/flex"
)

func TestNeighboursThatTheKubeletCannotExecute(t *testing.T) {
	const text = "#!/bin/sh\n"
	for name, row := range map[string]struct {
		files   map[string]string
		problem string // "" for none
	}{
		"good":               {map[string]string{"acme~facts/facts": text}, ""},
		"more files":         {map[string]string{"acme~facts/facts": text, "acme~facts/x": "", "acme~facts/.y": ""}, ""},
		"a link":             {map[string]string{"acme~facts/facts": "-> real", "acme~facts/real": text}, ""},
		"without a vendor":   {map[string]string{"facts/facts": text}, ""},
		"with two tildes":    {map[string]string{"acme~more~facts/facts": text}, ""},
		"a hidden directory": {map[string]string{".acme~facts/": ""}, ""},
		"a file":             {map[string]string{"acme~facts": text}, ""},
		"a link to one":      {map[string]string{"acme~facts": "-> .hidden", ".hidden/": ""}, ""},
		"ourselves":          {map[string]string{"example.com~pod-info-fuse/": ""}, ""},

		"empty directory":   {map[string]string{"acme~facts/": ""}, "it has no file facts"},
		"another name":      {map[string]string{"acme~facts/acme": text}, "it has no file facts"},
		"a dangling link":   {map[string]string{"acme~facts/facts": "-> none"}, "it has no file facts"},
		"a link to itself":  {map[string]string{"acme~facts/facts": "-> facts"}, "too many levels"},
		"a directory":       {map[string]string{"acme~facts/facts/": ""}, "not a regular file"},
		"an empty file":     {map[string]string{"acme~facts/facts": ""}, "is empty"},
		"not executable":    {map[string]string{"acme~facts/facts": text, "acme~facts/mode-0644": ""}, "is not executable"},
		"vendor's own name": {map[string]string{"facts/acme": text}, "it has no file facts"},
	} {
		dir := tree(t, row.files)
		for path := range row.files {
			path = filepath.Join(dir, path)
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || exists(filepath.Dir(path)+"/mode-0644") {
				continue
			}
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		ours, err := flex.ParseName("example.com/pod-info-fuse")
		if err != nil {
			t.Fatal(err)
		}
		problems, err := Target{PluginDir: dir, Driver: ours}.Neighbours()
		var all []string
		for neighbour, problem := range problems {
			all = append(all, neighbour+": "+problem)
		}
		got := strings.Join(all, "; ")
		if err != nil || len(problems) > 1 || (row.problem == "") != (got == "") || !strings.Contains(got, row.problem) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, row.problem)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
