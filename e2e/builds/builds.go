// Package builds has the builds of the drivers that tests need beside the product: such a build is
// the product with some texts replaced, and the files of testdata/NAME added, by Go's -overlay.
// The product itself has nothing for tests. Where one of these texts is not in its file any more,
// the build fails, and the edit has to follow.
package builds

// Edit replaces a text that a file of the repository has once.
type Edit struct{ File, Old, New string }

// before adds lines before one that stays.
func before(file, line, lines string) Edit { return Edit{file, line, lines + line} }

// builds are the builds, by their names.
var builds = map[string][]Edit{
	// It does what somebody may who has taken over a process of the pair: its version says what.
	"attack": {
		before("survive/serve.go", "	return confine.Landlocked(), err", `	if err == nil {
		n.attack()
	}
`),
		{"survive/serve.go", "return n.fileSystem(Site{Input: given.Input, CompanionFiles: companion, State: state})",
			"return n.lie(companion, given.Counters, n.fileSystem(Site{Input: given.Input, CompanionFiles: companion, State: state}))"},
		before("survive/internal/pair/main.go", "	service, err := p.Open(deviceFD)\n	if err != nil {\n		return err", `	p.attack()
`),
		{"survive/internal/pair/main.go", "	return a.run()", `	err = a.run()
	a.stay()
	return err`},
		before("survive/internal/pair/upgrade.go", "	a.standby.dismiss()\n	a.standby = nil\n	before := a.history", `	if pretends, done := a.pretends(); pretends {
		return done
	}
`),
	},
	// It takes the memory of a buffer away before it reads a request, if that memory is not locked.
	// The kernel then has to find other memory for each request. In that moment, a kill costs a
	// reader an EIO (survive/internal/connection/buffers.go), as one in a hundred kills does.
	"dropping": {
		before("survive/internal/connection/device.go", "		n, err = d.read(buffer)", `		_ = unix.Madvise(buffer, unix.MADV_DONTNEED)
`),
	},
	// It dies on demand between reading a request and answering it.
	"lossy": {
		before("survive/internal/connection/worker.go", "	length := w.protocol.handle(", `	die(w.request[:n])
`),
	},
	// It has a newer format of the packets between the processes of a pair.
	"newer": {
		{"survive/internal/pair/message.go", "const format = 1", "const format = 2"},
	},
	// It behaves as on Linux before 6.9.
	"noresend": {
		{"survive/internal/connection/params.go", "return p.Minor >= 40", "return false"},
		{"survive/internal/connection/recover.go", "devfuse.Resend(c.device.fd)", "error(unix.EINVAL)"},
	},
	// It waits where another process may do something meanwhile.
	"slow": {
		before("survive/internal/pair/main.go", "	p.starter.send(message{Kind: ready,", `	pause(600)
`),
		before("survive/internal/pair/main.go", "	p.lockActive(releaseTime)", `	pause(150)
`),
		before("survive/internal/pair/lock.go", "		if ask.b == activeByte && locks.Held()", `		pause(300)
`),
	},
	// It dies of a system call that the others are only denied, so that no denial goes unseen. The
	// filter's last instruction is the answer to those.
	"strict": {
		before("internal/confine/seccomp.go", "	prog := unix.SockFprog{", `	program[len(program)-1].K = unix.SECCOMP_RET_KILL_PROCESS
`),
	},
}
