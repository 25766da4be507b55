package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// report prints the table, and writes the document.
func (b *bench) report() error {
	sections := b.sections()
	if err := printTable(os.Stdout, sections); err != nil {
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
	fmt.Fprintf(&text, introduction, b.machine)
	for _, s := range sections {
		text.WriteString("\n" + s.markdown())
	}
	return errors.Join(failed, os.WriteFile(filepath.Join(b.settings.docs, "benchmarks.md"), []byte(text.String()), 0o644))
}

const introduction = `# What the driver costs

Written by ` + "`make bench`" + `, with figures of one run on one machine. Everything that is compared was
measured in the same rounds, one after the other. A ratio is the median of the ratios of
the rounds, and the quartiles beside it say how much they varied. Two runs are to agree
within them; times are those of this machine, and of what else it did.

To repeat it, as root, on Linux with ` + "`/dev/fuse`" + ` and Debian's packages: ` + "`make bench`" + `, in twenty
minutes, or ` + "`make bench-quick`" + `, in three, which does less of everything and writes nothing here. ` + "`make bench-check`" + `
measures only what does not depend on the machine's speed, and fails when that is worse than
in ` + "`bench/expected.json`" + `. ` + "`go doc ./bench`" + ` says how it is measured.

| machine | |
|---|---|
%s`
