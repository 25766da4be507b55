package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

var longestStall = regexp.MustCompile(`(?m)^longest stall +([0-9.]+) ms`)

// takeOver has e2e/chaos kill processes under its readers, which knows best how.
func (b *bench) takeOver() error {
	cmd := exec.CommandContext(b.ctx, b.settings.chaos, "kill", "--driver-binary", b.settings.binary,
		"--duration", b.settings.killDuration, "--kills", b.settings.kills)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	found := longestStall.FindSubmatch(output)
	if found == nil {
		return fmt.Errorf("no stall in %s", output)
	}
	stall, err := strconv.ParseFloat(string(found[1]), 64)
	b.figures.add("take-over/stall", stall)
	return err
}
