// Package command is the program of a driver: the call-outs that the kubelet executes, the
// processes that serve, and the commands for people. A driver describes itself in a
// [Program], and its main function is one call:
//
//	func main() { program.Main() }
//
// docs/dev/second-driver.md builds one step by step. A program that no kubelet calls is a
// [Standalone].
package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/cli"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/metrics"
	"example.com/pod-info-fuse/survive/volume"
)

// Program describes a driver's program.
type Program struct {
	survive.Driver
	// Name is the driver's name, vendor/driver, where neither the path of the binary nor
	// --driver tells one.
	Name string
	// About is the first sentence of the help.
	About string
	// Configure reads the configuration, the content of config.json beside the binary; nil
	// if there is no file. When it fails, mount fails with its error, all else goes on with
	// the settings that it returns, and install does not install the file. nil: there is
	// nothing to configure. The file system has what it puts into Settings.Config: another process
	// serves, and sees nothing else of what Configure has read.
	Configure func(configuration []byte) (survive.Settings, error)
	// Check accepts or refuses the options of a mount, and writes into the record everything
	// that the file system has to know of the volume. nil: there are no options.
	Check func(options flex.Options, r *volume.Record) error
	// CallOuts adds to the call-outs, or replaces them: it returns what the kubelet's calls
	// go to. nil: to the call-outs themselves. A driver with volumes of another kind tells them
	// by their options, or by a record of its own, and has [survive.Node.Acquire] start the daemon.
	CallOuts func(c survive.CallOuts) flex.Driver
	// Status returns the driver's sections of status and metrics, within seconds. nil: none.
	Status func(n survive.Node) []Section
	// Deliver adds flags to install, for files that it delivers to the input. nil: none. The
	// result delivers them for a driver to the input that settings name, again and again with
	// --watch. Open what a flag names when it is read: afterwards, install enters the host's root
	// directory, where paths are others.
	Deliver func(set *pflag.FlagSet) (deliver func(driver flex.Name, settings survive.Settings) error)
	// Withdraw removes the files that were delivered for a driver to the input that settings
	// name, before the driver is uninstalled.
	Withdraw func(driver flex.Name, settings survive.Settings) error
	// Commands are the driver's own. None may have the name of a command that every driver has.
	Commands []Command
}

// Command is a command for people: its name, arguments, a sentence, an example, and Prepare, which
// declares its flags and returns what executes it. `go doc ./internal/cli Command` has all fields.
type Command = cli.Command

// Main executes the call-out or the command that the process was started for, and exits.
func (p Program) Main() { os.Exit(p.run(os.Args, time.Now())) }

// run executes one command and returns the process's exit status.
func (p Program) run(args []string, started time.Time) int {
	if len(args) < 2 {
		fmt.Fprint(os.Stderr, p.table().Help())
		return 2
	}
	return p.exitStatus(p.execute(args[1], args[2:], started))
}

// exitStatus is the exit status after an error, which it prints.
func (p Program) exitStatus(err error) int {
	if err == nil {
		return 0
	} else if status, ok := errors.AsType[cli.Status](err); ok {
		return int(status)
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", p.Program, lines(err.Error()))
	if _, ok := errors.AsType[cli.UsageError](err); ok {
		return 2
	}
	return 1
}

// execute executes a command. Of a call-out, it does not return.
func (p Program) execute(verb string, args []string, started time.Time) error {
	if run := p.Internal(verb); run != nil {
		return run(args)
	}
	if flex.Known(verb) {
		return p.callOut(started)
	}
	if table := p.table(); table.Has(verb) || onTerminal() {
		return table.Run(verb, args)
	}
	return p.callOut(started) // of a later kubelet
}

// callOut executes a call-out of the kubelet, logs it unless it has only found that a volume is
// mounted, counts it, and exits.
func (p Program) callOut(started time.Time) error {
	var i survive.CallOuts
	repeated := false
	elsewhere := p.enterNode(os.Args[1], os.Args[2:]) // while it has the descriptors of its caller
	find := func() (_ flex.Driver, err error) {
		if elsewhere != nil && os.Args[1] != "init" {
			return nil, elsewhere
		}
		i, err = p.installation("")
		if elsewhere != nil {
			p.log(i).Line("init: %v", elsewhere)
			return capable{}, nil
		}
		i.Repeated = func() { repeated = true }
		if err == nil && p.CallOuts != nil {
			return p.CallOuts(i), nil
		}
		return i, err
	}
	flex.Main(find, func(o flex.Outcome) {
		took := time.Since(started)
		text := Printable(o.CallOut, 40)
		if o.Dir != "" {
			text += " " + Printable(o.Dir, 300)
		}
		text += ": " + string(o.Answer.Status)
		if o.Answer.Message != "" {
			text += ": " + o.Answer.Message
		}
		if o.Unsaid != nil {
			text += "; the answer could not be printed: " + o.Unsaid.Error()
		}
		if !repeated || o.Unsaid != nil {
			p.log(i).Line("%s in %v", text, took.Round(10*time.Microsecond))
		}
		if i.Node.RunDir != "" { // it was found
			metrics.Record(filepath.Join(i.Node.RunDir, metrics.CallsFileName), o.CallOut, string(o.Answer.Status), took)
		}
	})
	return nil // not reached
}

// capable answers init, which must not fail, of a call-out that cannot enter the node's namespaces.
type capable struct{ flex.Driver }

func (capable) Init() (flex.Capabilities, error) { return flex.Capabilities{}, nil }

// enterNode executes a call-out again, in the namespaces of process 1. It returns nil if the
// call-out is to go on where it is: it is there already; process 1 does not have the directory, so
// it is of another node, as where nodes are containers that share PIDs with their host; or unmount
// finds the volume in its own namespace only, where a version before 0.2.0 has mounted it.
func (p Program) enterNode(callOut string, args []string) error {
	name, err := p.driverName("")
	if err != nil || !flex.Known(callOut) {
		return nil // installation reports it
	}
	if is, err := proc.IsOnNode(); err != nil || is { // without the right to ask, setns(2) fails, too
		return nil
	}
	dir := p.NodeFor(name, survive.Settings{}).RunDir
	if len(args) > 0 {
		dir = args[0]
	}
	if callOut == "mount" { // the volume's own mount would not tell
		dir = filepath.Dir(dir)
	}
	here, err := mount.Look(dir)
	if err != nil && callOut == "mount" {
		return err
	}
	program := calledAs()
	home := filepath.Dir(program)
	ours, _ := mount.Look(home)
	plugins, err := unix.Open(filepath.Dir(home), unix.O_PATH|unix.O_DIRECTORY, 0) // execve(2) keeps it
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Dir(home), Err: err}
	}
	defer unix.Close(plugins)
	return proc.OnNode(func() error {
		there, err := mount.Look(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist), callOut == "unmount" && here.Mounted && err == nil && !there.Mounted:
			return nil
		case callOut != "mount":
		case err != nil:
			return err
		case !there.IsSame(here):
			return nil
		case !there.Reaches(here):
			return fmt.Errorf("the kubelet is in a mount namespace of its own, where nothing is seen that the host mounts on %s; "+
				"the mount of the kubelet's directory there must be a slave of the host's, or shared with it", dir)
		}
		// A container of the kubelet may have the driver, and its configuration, at a path of its
		// own.
		if theirs, err := mount.Look(home); err != nil || !theirs.IsSame(ours) {
			os.Args[0] = fmt.Sprintf("/proc/self/fd/%d/%s/%s", plugins, filepath.Base(home), filepath.Base(program))
		}
		return os.NewSyscallError("execve", unix.Exec("/proc/self/exe", os.Args, os.Environ()))
	})
}
