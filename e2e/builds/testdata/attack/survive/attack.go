package survive

import (
	"os"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/e2e/attack"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/suspects"
)

// attack tries everything that a confined process must not be able to do, and logs the results.
func (n process) attack() {
	const log = 7 // see package pair
	for _, a := range attack.On(n.rules(nil), n.RunDir, n.path("connection.json"), os.Getppid(), log) {
		if err := a.Try(); err != nil {
			n.Log("attack refused: %s: %v", a.Name, err)
		} else {
			n.Log("attack succeeded: %s", a.Name)
		}
	}
	n.Log("attacks end")
}

// lie is how the process answers, as the version of the build says.
func (n process) lie(given []*os.File, counts *os.File, files FileSystem) FileSystem {
	if name, condemns := strings.CutPrefix(n.Version, "condemns:"); condemns {
		go condemn(name, counts)
	}
	if n.Version == attack.Orders {
		orders := func() { attack.OnMounter(n.RunDir, given[1], given[0], n.Log) }
		return attack.Ordering(files, orders)
	}
	return attack.Lie(n.Version, n.fsPath(), files)
}

// condemn notes again and again that two processes have died of a look-up in the root.
func condemn(name string, file *os.File) {
	counts, err := counters.Map(file)
	if err != nil {
		panic(err)
	}
	const lookup = 1 // linux/fuse.h, FUSE_LOOKUP
	subject := suspects.Subject{Node: fuse.FUSE_ROOT_ID, Opcode: lookup, Name: suspects.Hash([]byte(name))}
	for ; ; time.Sleep(10 * time.Microsecond) {
		counts.Suspects.Note(suspects.MostWorkers-1).Begin(subject, 1, time.Now())
		counts.Suspects.Judge(false, time.Now())
	}
}
