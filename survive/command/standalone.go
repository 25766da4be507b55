package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// Standalone describes a program that mounts without a kubelet: root, or systemd, calls it to mount a
// source on a directory. Each directory that it mounts on has a pair of processes of its own, and a run
// directory /run/PROGRAM/PROGRAM~ID. docs/without-kubernetes.md says what it promises.
type Standalone struct {
	// Driver describes the file system. It finds the source in [survive.Site.Input], open.
	survive.Driver
	// About is the first sentence of the help.
	About string
	// Source is the name that the help has for what is mounted, such as ARCHIVE: a regular file or a directory
	// on a local file system. "": the file system has none, and mount takes only the directory.
	Source string
}

// Main executes the command that the process was started for, and exits.
func (s Standalone) Main() {
	s.InputFile = true
	p := Program{Driver: s.Driver, About: s.About}
	os.Exit(p.exitStatus(s.run(p, os.Args)))
}

func (s Standalone) run(p Program, args []string) error {
	if len(args) < 2 {
		fmt.Fprint(os.Stderr, s.usage())
		return errUsage
	}
	verb, args := args[1], args[2:]
	if run := s.Internal(verb); run != nil {
		return run(args)
	}
	for _, c := range s.commands() {
		if c.Name == verb || verb == "--"+c.Name || verb == "-h" && c.Name == "help" {
			return c.Run(p, args)
		}
	}
	return p.UsageError(fmt.Errorf("unknown command %q", verb))
}

// commands are all commands, in the order of the help.
func (s Standalone) commands() []Command {
	mounts := 1
	if s.Source != "" {
		mounts = 2
	}
	return []Command{
		{"mount", strings.TrimSpace(s.Source + " DIR"), "mount on a directory, and heal it if all processes have died", plain("mount", mounts, mounts, s.mount)},
		{"umount", "DIR", "unmount it, and end its processes", plain("umount", 1, 1, s.end)},
		{"status", "[-o json] [DIR]", "show what is mounted, and the processes that serve", s.status},
		{"upgrade", "[DIR]", "let this version take over from the one that serves", plain("upgrade", 0, 1, s.upgrade)},
		{"restore", "[DIR]", "heal what is mounted and whose processes have died", plain("restore", 0, 1, s.restore)},
		{"stop", "", "unmount all", plain("stop", 0, 0, s.end)},
		{"version", "", "print the version", Program.version},
		{"help", "", "print this text", func(Program, []string) error { _, err := fmt.Print(s.usage()); return err }},
	}
}

func (s Standalone) usage() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", s.About)
	for _, c := range s.commands() {
		fmt.Fprintf(&text, "  %-23s %s\n", strings.TrimSpace(c.Name+" "+c.Args), c.Help)
	}
	text.WriteString("\nWithout DIR: all that is mounted.\n")
	return text.String()
}

// plain is a command that has no flags, and from least to most arguments.
func plain(name string, least, most int, run func(Program, []string) error) func(Program, []string) error {
	return func(p Program, args []string) error {
		args, err := p.arguments(pflag.NewFlagSet(name, pflag.ContinueOnError), args, least, most)
		if err != nil {
			return err
		}
		return run(p, args)
	}
}

// arguments reads a command's flags, and returns its arguments, from least to most of them.
func (p Program) arguments(set *pflag.FlagSet, args []string, least, most int) ([]string, error) {
	err := set.Parse(args)
	if n := set.NArg(); err == nil && (n < least || n > most) {
		err = fmt.Errorf("%s has %d arguments", set.Name(), n)
	}
	return set.Args(), p.UsageError(err)
}

// at is the installation for a directory, which has its id for a name.
func (p Program) at(dir string) (i survive.CallOuts, clean string, err error) {
	if clean, err = filepath.Abs(dir); err != nil {
		return i, "", err
	}
	// The directory itself may be a mount that does not answer.
	if parent, err := mount.Real(filepath.Dir(clean)); err == nil {
		clean = filepath.Join(parent, filepath.Base(clean))
	}
	i, err = p.named(volume.NewID(clean).String())
	return i, clean, err
}

func (p Program) named(id string) (i survive.CallOuts, err error) {
	if i, err = p.installation(p.Program + "/" + id); err == nil {
		i.Node.KeepInput()
		i.Node.Label = "" // the default is for containers
	}
	return i, err
}

// mounted are the installations that there are, of one directory or of all.
func (p Program) mounted(dirs []string) (all []survive.CallOuts, err error) {
	if len(dirs) > 0 {
		i, dir, err := p.at(dirs[0])
		if err != nil {
			return nil, err
		}
		if _, err := os.Lstat(i.Node.RunDir); err != nil {
			return nil, fmt.Errorf("%s has not mounted anything on %s", p.Program, dir)
		}
		return []survive.CallOuts{i}, nil
	}
	found, err := filepath.Glob(filepath.Join("/run", p.Program, p.Program+"~*"))
	for _, path := range found {
		i, err := p.named(strings.TrimPrefix(filepath.Base(path), p.Program+"~"))
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, err
}

// mount mounts a source on a directory. What is mounted from there stays, and is healed.
func (s Standalone) mount(p Program, args []string) error {
	i, dir, err := p.at(args[len(args)-1])
	if err != nil {
		return err
	}
	before := i.Node.Input
	if s.Source != "" {
		if i.Node.Input, err = filepath.Abs(args[0]); err != nil {
			return err
		}
		if strings.Contains(i.Node.Input, "\n") {
			return fmt.Errorf("%q has a line feed in its path; rename it", i.Node.Input) // the note of it has a line for the path
		}
		if err := i.Node.CheckInput(); err != nil {
			return err
		}
		if before != "" && before != i.Node.Input {
			return fmt.Errorf("%s is mounted from %s; unmount it first", dir, before)
		}
	}
	point, err := volume.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory %s does not exist; make it", dir)
	} else if err != nil {
		return err
	}
	point.Close()
	// A record has a pod's UID: this one is of no pod.
	options, err := flex.ParseOptions(fmt.Sprintf(`{%q: "%032s"}`, flex.OptionPodUID, volume.NewID(dir)))
	if err != nil {
		return err
	}
	if err := i.Mount(dir, options); err != nil {
		if before == "" {
			_, stopErr := i.Node.Stop(false)
			err = errors.Join(err, stopErr)
		}
		return err
	}
	return nil
}

// end unmounts a directory, or all, and ends the processes.
func (s Standalone) end(p Program, dirs []string) error {
	return s.each(p, dirs, func(i survive.CallOuts) error {
		_, err := i.Node.Stop(true)
		return err
	})
}

// each calls a function for all installations, or that of a directory.
func (s Standalone) each(p Program, dirs []string, do func(survive.CallOuts) error) error {
	all, err := p.mounted(dirs)
	for _, i := range all {
		err = errors.Join(err, do(i))
	}
	return err
}

// upgrade lets this version take over.
func (s Standalone) upgrade(p Program, args []string) error {
	return s.each(p, args, func(i survive.CallOuts) error { return p.upgradeNode(i.Node) })
}

// restore heals what is dead.
func (s Standalone) restore(p Program, args []string) error {
	healed := false
	err := s.each(p, args, func(i survive.CallOuts) error {
		some, err := p.restoreNode(i)
		healed = healed || some
		return err
	})
	if err == nil && !healed {
		fmt.Println("nothing was dead")
	}
	return err
}

// mountReport is the JSON of a mount in status.
type mountReport struct {
	Dir     string              `json:"dir"`
	Source  string              `json:"source,omitempty"`
	State   survive.VolumeState `json:"state"`
	Version string              `json:"version"` // of this program, not of the processes that serve
	RunDir  string              `json:"runDir"`
	Daemon  daemonReport        `json:"daemon"`
}

// status shows what is mounted.
func (s Standalone) status(p Program, args []string) error {
	set := pflag.NewFlagSet("status", pflag.ContinueOnError)
	format := set.StringP("output", "o", "table", "`FORMAT`: table or json")
	args, err := p.arguments(set, args, 0, 1)
	if err == nil && *format != "table" && *format != "json" {
		err = p.UsageError(fmt.Errorf("output format %q is neither table nor json", *format))
	}
	if err != nil {
		return err
	}
	reports := []mountReport{}
	err = s.each(p, args, func(i survive.CallOuts) error {
		now, err := i.Node.Status()
		if err != nil {
			return err
		}
		r := mountReport{Source: i.Node.Input, State: survive.VolumeNotMounted, Version: i.Node.Version, RunDir: i.Node.RunDir, Daemon: newDaemonReport(now)}
		for _, v := range now.Volumes {
			r.Dir, r.State = v.Dir, v.State
		}
		reports = append(reports, r)
		if *format == "json" {
			return nil
		}
		if len(reports) > 1 {
			fmt.Println()
		}
		lines := [][2]string{{"directory", r.Dir}, {"state", string(r.State)}, {"source", r.Source}, {"version", r.Version}, {"run directory", r.RunDir}}
		return PrintLines(append(lines, r.Daemon.lines(i.Node.User())...))
	})
	if err == nil && *format == "json" {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(reports)
	}
	return err
}
