package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/bench/machine"
)

// describe describes what the figures were measured on, as rows of a table.
func (b *bench) describe() (string, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", err
	}
	binary, err := os.Stat(b.settings.binary)
	if err != nil {
		return "", err
	}
	const perLoad = 1 << 16 // linux/sysinfo.h, SI_LOAD_SHIFT
	rows := [][2]string{
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"kernel", machine.Kernel()},
		{"CPUs", fmt.Sprintf("%d, %s", runtime.NumCPU(), machine.Processor())},
		{"memory", fmt.Sprintf("%.0f GiB", float64(info.Totalram)*float64(info.Unit)/(1<<30))},
		{"load average", fmt.Sprintf("%.1f before, %.1f after", b.loadBefore, float64(info.Loads[0])/perLoad)},
		{"taken by its host", fmt.Sprintf("%.1f %% of the CPUs", share(taken()-b.takenBefore, b.began))},
		{"driver", fmt.Sprintf("%.1f MB", float64(binary.Size())/1e6)},
		{"compiler", runtime.Version()},
		{"libfuse", b.firstLine(b.other("hello_ll"), "--version")},
		{"lxcfs", strings.Trim(b.firstLine(b.other("lxcfs/usr/bin/lxcfs"), "--version"), `"`)},
	}
	var text strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&text, "| %s | %s |\n", r[0], r[1])
	}
	return text.String(), nil
}

func loadAverage() float64 {
	var load float64
	text, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(text), &load)
	return load
}

// firstLine is the first line that a program prints.
func (b *bench) firstLine(program string, args ...string) string {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+b.libraries())
	output, _ := cmd.CombinedOutput()
	line, _, _ := strings.Cut(string(output), "\n")
	return line
}
