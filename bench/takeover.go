package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// longestStalls are what e2e/chaos prints of its readers: the longest stall while a process
// was replaced, and the longest one of the rest of the time.
var longestStalls = regexp.MustCompile(`(?m)^longest stall +([0-9.]+) ms.* replaced\n +else +([0-9.]+) ms`)

// takeOver has e2e/chaos kill processes under its readers, which knows best how.
func (b *bench) takeOver() error {
	cmd := exec.CommandContext(b.ctx, b.settings.chaos, "kill", "--driver-binary", b.settings.binary,
		"--duration", b.settings.killDuration, "--kills", b.settings.kills)
	began, before := time.Now(), taken()
	output, err := cmd.CombinedOutput()
	b.figures.add("take-over/taken", share(taken()-before, began))
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	found := longestStalls.FindSubmatch(output)
	if found == nil {
		return fmt.Errorf("no stalls in %s", output)
	}
	for i, name := range []string{"take-over/stall", "take-over/else"} {
		stall, err := strconv.ParseFloat(string(found[i+1]), 64)
		if err != nil {
			return err
		}
		b.figures.add(name, stall)
	}
	return nil
}
