package survive

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/internal/suspects"
	"example.com/pod-info-fuse/survive/volume"
)

// process is one of the two that serve.
type process struct{ Node }

// serve is the life of a process of the daemon's pair, which a call-out or such a process
// has started with serveArgs. It may read nothing but the run directory, the input, and the
// driver's Reads.
func (d Driver) serve(args []string) error {
	proc.KeepMonitorAwake()
	given, inherited := pair.Inherited()
	if !inherited || len(args) < 3 {
		return notByHand(pair.Verb)
	}
	inherits := len(args) == 3 // confinement: a standby
	companion, stateFile := d.split(given.Given)
	var sender *os.File
	if d.Sockets && len(companion) > 0 {
		sender = companion[len(companion)-1]
	}
	if !inherits {
		if err := d.becomeUser(args[3], sender); err != nil {
			return err
		}
	}
	name, err := flex.ParseName(args[1])
	if err != nil {
		return err
	}
	n := process{d.NodeFor(name, Settings{Config: given.Config})}
	n.log = pair.InheritedLog(d.Program)
	limitFiles(n.log.IsFile())
	state, err := d.mapState(stateFile)
	if err != nil {
		return err
	}
	if sender != nil {
		companion = slices.Clone(companion) // the standby is given what this process was
		companion[len(companion)-1] = confine.Sender()
	}
	counts, err := counters.Map(given.Counters)
	if err != nil {
		n.Log("it counts nothing: %v", err)
	}
	// Once the process is confined: what a standby cannot open, the first process must not have.
	files := sync.OnceValue(func() FileSystem {
		return n.fileSystem(Site{Input: given.Input, CompanionFiles: companion, State: state})
	})
	err = pair.Main(pair.Config{
		Args:        n.serveArgs("--confined"),
		Version:     n.Version,
		Confine:     func() (bool, error) { return n.confine(given.Input, inherits) },
		Open:        n.opener(files, counts),
		TookOver:    func(cause pair.Cause) { n.tookOver(files(), counts, cause, inherits) },
		LostStandby: n.lostStandby,
		Resources:   given,
		Log:         n.Log,
	})
	if err != nil {
		n.Log("%v", err)
	}
	return err
}

// becomeUser makes this process, which is root's, one of a user, before it does anything else.
func (d Driver) becomeUser(uid string, sender *os.File) error {
	number, err := strconv.ParseUint(uid, 10, 32)
	if err != nil {
		return notByHand(pair.Verb)
	}
	return confine.Become(confine.User{UID: uint32(number), GID: confine.GroupOf(d.Program)}, sender)
}

// tookOver notes that this process takes over: it counts that, and says what the process before may
// have died of.
func (n process) tookOver(files FileSystem, counts *counters.Counters, cause pair.Cause, inherits bool) {
	count(counts, cause, inherits)
	if cause == pair.Planned || cause == pair.Started {
		return
	}
	logCrash(takeCrash(os.Stderr), n.Log)
	for _, s := range counts.Suspects.Judge(cause == pair.Hang, time.Now()) {
		n.Log("two processes have ended, or hung, as they answered such a request, and it is answered with EIO for at least %v from now on: %s",
			suspects.RefusalTime, n.describe(s, files))
	}
}

// lostStandby takes the text of a standby that is dead, or it would be taken for that of the
// process that dies next. Of many that die in a row, it logs the first ones' texts only.
func (n process) lostStandby(oneOfMany bool) {
	if text := takeCrash(os.Stderr); !oneOfMany {
		logCrash(text, n.Log)
	}
}

// describe is a request that is suspected, for people.
func (n process) describe(s suspects.Subject, files FileSystem) string {
	text := fmt.Sprintf("%s of node %d", s.Operation(), s.Node)
	sharer, is := files.(VolumeMapper)
	if !is {
		return text
	}
	id := volume.ID(sharer.VolumeOf(s.Node))
	record, err := n.Volumes().Get(id)
	if err != nil {
		return text
	}
	text += ", in volume " + id.String()
	if pod := record.Pod(); pod != "" {
		text += " of pod " + pod
	}
	return text + ", " + record.Dir
}

// count counts a take-over. A process that was not started by one of the pair was by a call-out,
// and then takes over as planned when that replaces the pair.
func count(counts *counters.Counters, cause pair.Cause, inherits bool) {
	switch {
	case cause == pair.Started:
		counts.Start()
	case cause == pair.Planned && !inherits:
		counts.Takeover("upgrade")
	default:
		counts.Takeover(string(cause))
	}
}

// confine confines this process, in full or as one that a confined process started.
func (n process) confine(input *os.File, already bool) (landlocked bool, err error) {
	var problems []string
	if already {
		err = confine.Repeat(n.Program)
	} else {
		problems, err = confine.Enter(n.Program, n.rules(input))
	}
	for _, problem := range problems {
		n.Log("it goes on with less confinement: %s", problem)
	}
	return confine.Landlocked(), err
}

// opener returns the function that prepares to serve the connection that a call-out has
// initialised. All services share the buffers, which the first call makes.
func (n process) opener(files func() FileSystem, counts *counters.Counters) func(device int) (pair.Service, error) {
	var buffers *connection.Buffers
	return func(device int) (pair.Service, error) {
		data, err := os.ReadFile(n.path("connection.json"))
		if err != nil {
			return nil, err
		}
		agreed, err := connection.DecodeParams(data)
		if err != nil {
			return nil, err
		}
		if buffers == nil {
			made, err := connection.NewBuffers(pair.Workers, agreed, n.problem)
			if err != nil {
				return nil, err
			}
			buffers = &made
		}
		if files() == nil {
			return nil, errNoFileSystem
		}
		c, err := connection.New(device, agreed, files(), *buffers, counts, n.problem)
		if err != nil {
			return nil, err
		}
		return service{c, n.fsPath(), n.problem}, nil
	}
}

// service makes the connection a pair.Service.
type service struct {
	*connection.Connection
	mountPoint string
	report     func(problem string)
}

// Recover leaves a Holder to Serve.
func (s service) Recover() error {
	if s.Holds() {
		return nil
	}
	return s.Connection.Recover(s.mountPoint)
}

// Serve begins with what the Holder of another process had, or of this one, if that serves again:
// it is left over however that has ended.
func (s service) Serve() error {
	if s.Holds() {
		if err := s.Connection.Recover(s.mountPoint); err != nil && !errors.Is(err, unix.ENODEV) {
			s.report(fmt.Sprintf("requests that were held may be lost: %v", err))
		}
	}
	return s.Connection.Serve()
}

// rules are what the daemon may do.
func (n process) rules(input *os.File) confine.Rules {
	rules := confine.Rules{Read: []string{n.RunDir}, Sockets: n.Sockets}
	if input != nil {
		rules.Read = append(rules.Read, fmt.Sprintf("/proc/self/fd/%d", input.Fd()))
	}
	if n.Reads != nil {
		rules.Read = append(rules.Read, n.Reads()...)
	}
	return rules
}

// Internal returns what executes a command that the driver starts by itself, nil for any
// other. A driver's main calls it before it looks for commands of its own.
func (d Driver) Internal(command string) func(args []string) error {
	switch command {
	case pair.Verb:
		return d.serve
	case healVerb:
		return healNamespace
	}
	return nil
}
