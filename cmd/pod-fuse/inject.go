package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/internal/cli"
	"example.com/pod-info-fuse/podfuse/inject"
	"example.com/pod-info-fuse/survive/command"
)

// injects is the command that prints a manifest with programs in its pods.
var injects = command.Command{
	Name:    "inject",
	Help:    "print a manifest with the programs that its pods ask for",
	More:    `It adds what the chart's admission policy would add to the pods: the programs that their volumes ask for, and what a container needs that the annotation names. A document to which it adds is written anew, as YAML, without its comments. It changes nothing in the cluster.`,
	Example: "inject --programs values.yaml -f pod.yaml | kubectl apply -f -",
	Prepare: func(set *pflag.FlagSet) func([]string) error {
		name := set.StringP("filename", "f", "", "the manifest, a `FILE` of YAML or JSON; - is the standard input")
		values := set.StringArray("programs", nil, "`VALUES` of the chart, of which podFuse.programs and podFuse.driver count; - is the standard input; later ones go before")
		return func([]string) error {
			if *name == "" {
				return cli.Usage(errors.New("inject needs -f FILE"))
			}
			return printInjected(*name, *values)
		}
	},
}

func printInjected(name string, values []string) error {
	var files [][]byte
	for _, name := range append(values, name) {
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
	list, err := inject.Read(files[:len(values)]...)
	if err != nil {
		return err
	}
	injected, err := list.Manifest(string(files[len(values)]))
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(injected)
	return err
}
