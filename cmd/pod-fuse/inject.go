package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/podfuse/inject"
	"example.com/pod-info-fuse/survive/command"
)

const injectUsage = `usage: pod-fuse inject [--programs VALUES ...] -f FILE

Prints a manifest with what the chart's admission policy would add to its pods: the programs that their
volumes ask for, and what a container needs that the annotation names. It changes nothing else, and
nothing in the cluster. VALUES are values of the chart, which list the programs.

	pod-fuse inject --programs values.yaml -f pod.yaml | kubectl apply -f -

`

// injects prints a manifest with programs in its pods.
func injects(p command.Program, args []string) error {
	set := pflag.NewFlagSet("inject", pflag.ContinueOnError)
	set.Usage = func() { fmt.Fprint(os.Stderr, injectUsage+set.FlagUsages()) }
	name := set.StringP("filename", "f", "", "the manifest, a `FILE` of YAML or JSON; - is the standard input")
	values := set.StringArray("programs", nil, "`VALUES` of the chart, of which podFuse.programs and podFuse.driver count; - is the standard input; later ones go before")
	if err := set.Parse(args); err != nil {
		return p.UsageError(err)
	}
	if *name == "" || set.NArg() > 0 {
		return p.UsageError(errors.New("inject needs -f FILE, and no other arguments"))
	}
	var files [][]byte
	for _, name := range append(*values, *name) {
		file := os.Stdin
		if name != "-" {
			var err error
			if file, err = os.Open(name); err != nil {
				return err
			}
			defer file.Close()
		}
		content, err := io.ReadAll(file)
		if err != nil {
			return err
		}
		files = append(files, content)
	}
	list, err := inject.Read(files[:len(*values)]...)
	if err != nil {
		return err
	}
	injected, err := list.Manifest(string(files[len(*values)]))
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(injected)
	return err
}
