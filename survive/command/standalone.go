package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/cli"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// Standalone describes a program that mounts without a kubelet: root, or systemd, calls it to mount
// a source on a directory. Each directory that it mounts on has a pair of processes of its own, and
// a run directory /run/PROGRAM/PROGRAM~ID. docs/without-kubernetes.md says what it promises.
type Standalone struct {
	// Driver describes the file system. It finds the source in [survive.Site.Input], open.
	survive.Driver
	// About is the first sentence of the help.
	About string
	// Source is the name that the help has for what is mounted, such as ARCHIVE: a regular file or
	// a directory on a local file system. "": the file system has none, and mount takes only the
	// directory.
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
		fmt.Fprint(os.Stderr, s.table(p).Help())
		return cli.Status(2)
	}
	verb, args := args[1], args[2:]
	if run := s.Internal(verb); run != nil {
		return run(args)
	}
	return s.table(p).Run(verb, args)
}

// table is the program's command line.
func (s Standalone) table(p Program) cli.Table {
	// plain is a command that has no flags.
	plain := func(run func(p Program, args []string) error) func(*pflag.FlagSet) func([]string) error {
		return func(*pflag.FlagSet) func([]string) error {
			return func(args []string) error { return run(p, args) }
		}
	}
	return cli.Table{
		Program: s.Program, Version: s.Version, About: s.About, Note: "Without DIR: all that is mounted.",
		Commands: []Command{
			{
				Name: "mount", Args: strings.TrimSpace(s.Source + " DIR"), Prepare: plain(s.mount),
				Help: "mount on a directory, and heal it if all processes have died", Example: strings.TrimSpace("mount "+s.Source) + " /mnt",
			},
			{Name: "umount", Args: "DIR", Prepare: plain(s.end), Help: "unmount it, and end its processes", Example: "umount /mnt"},
			{
				Name: "status", Args: "[DIR]", Prepare: func(set *pflag.FlagSet) func([]string) error { return s.status(p, set) },
				Help: "show what is mounted, and the processes that serve", Example: "status -o json /mnt",
			},
			{Name: "upgrade", Args: "[DIR]", Prepare: plain(s.upgrade), Help: "let this version take over from the one that serves", Example: "upgrade"},
			{
				Name: "restore", Args: "[DIR]", Prepare: func(set *pflag.FlagSet) func([]string) error { return s.restore(p, set) },
				Help: "heal what is mounted and whose processes have died", Example: "restore",
			},
			{Name: "stop", Prepare: plain(s.end), Help: "unmount all", Example: "stop"},
		},
	}
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
		i.Node.Input, i.Node.Config = i.Node.Inside().NotedInput()
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
	before, source := i.Node.Input, ""
	if s.Source != "" {
		if source, err = filepath.Abs(args[0]); err != nil {
			return err
		}
		if strings.Contains(source, "\n") {
			return fmt.Errorf("%q has a line feed in its path; rename it", source) // the note of it has a line for the path
		}
		i.Node.Input = source
		if err := i.Node.Inside().CheckInput(); err != nil {
			return err
		}
	}
	point, err := volume.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory %s does not exist; make it", dir)
	} else if err != nil {
		return err
	}
	point.Close()
	if before != "" && before != source {
		return fmt.Errorf("%s is mounted from %s; unmount it first", dir, before)
	}
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
func (s Standalone) restore(p Program, set *pflag.FlagSet) func([]string) error {
	output := cli.OutputFlag(set, "text")
	return func(args []string) error {
		var healed []survive.Healed
		err := s.each(p, args, func(i survive.CallOuts) error {
			all, err := p.restoreNode(i)
			healed = append(healed, all...)
			return err
		})
		return reportHealed(output, healed, err)
	}
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
func (s Standalone) status(p Program, set *pflag.FlagSet) func([]string) error {
	output := cli.OutputFlag(set, "table")
	return func(args []string) error {
		reports := []mountReport{}
		err := s.each(p, args, func(i survive.CallOuts) error {
			now, err := i.Node.Status()
			if err != nil {
				return err
			}
			r := mountReport{Source: i.Node.Input, State: survive.VolumeNotMounted, Version: i.Node.Version, RunDir: i.Node.RunDir, Daemon: newDaemonReport(now)}
			for _, v := range now.Volumes {
				r.Dir, r.State = v.Dir, v.State
			}
			reports = append(reports, r)
			if output.JSON() {
				return nil
			}
			if len(reports) > 1 {
				fmt.Println()
			}
			lines := [][2]string{{"directory", r.Dir}, {"state", string(r.State)}, {"source", r.Source}, {"version", r.Version}, {"run directory", r.RunDir}}
			return printLines(append(lines, r.Daemon.lines(i.Node.User())...))
		})
		if err == nil && output.JSON() {
			err = cli.PrintJSON(reports)
		}
		return err
	}
}
