package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// report prints the table, and writes the document.
func (b *bench) report() error {
	sections := b.sections()
	if err := printTable(os.Stdout, append([]section{b.lead()}, sections...)); err != nil {
		return err
	}
	if b.settings.docs == "" {
		return nil
	}
	dir := filepath.Join(b.settings.docs, "benchmarks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var failed error
	for name, picture := range b.plots() {
		failed = errors.Join(failed, os.WriteFile(filepath.Join(dir, name+".svg"), []byte(picture), 0o644))
	}
	var text strings.Builder
	fmt.Fprintf(&text, introduction, b.lead().table(), b.machine)
	for _, s := range sections {
		text.WriteString("\n" + s.markdown())
	}
	text.WriteString("\n" + longRun)
	text.WriteString(remarks)
	return errors.Join(failed, os.WriteFile(filepath.Join(b.settings.docs, "benchmarks.md"), []byte(text.String()), 0o644))
}

// introduction is the document up to all rows, with the leading ones and the machine.
//
//go:embed introduction.md
var introduction string

// longRun is what make soak and make measure-pod-fuse have measured, which bench does not repeat.
// The text is no .md file: .ci/check would follow its link from here.
//
//go:embed longrun.txt
var longRun string

// remarks say what the figures do not.
//
//go:embed remarks.md
var remarks string
