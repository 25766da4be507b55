//go:build attack

package survive

import (
	"os"
	"sync"

	"example.com/pod-info-fuse/e2e/attack"
)

// A test build tries everything that a confined process must not be able to do, and logs the
// results. It may also lie, as its version says.
func init() {
	confined = func(n Node) {
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
	answering = func(n Node, given []*os.File, files FileSystem) FileSystem {
		if n.Version == attack.Orders {
			orders := func() { attack.OnMounter(n.RunDir, given[1], given[0], n.Log) }
			return ordering{files, files.(Sharer), files.(Prompter), orders, &sync.Once{}}
		}
		return attack.Lie(n.Version, n.fsPath(), files)
	}
}

// ordering has each process that serves give orders of its own by the link that it was given, in the place of
// those of the driver: one that gets no processor for seconds is replaced.
type ordering struct {
	FileSystem
	Sharer
	Prompter
	orders func()
	once   *sync.Once // a process may serve again
}

func (ordering) Hold(Request) bool { return false }

func (ordering) Interrupted(uint64) {}

func (o ordering) Begin(Answerer) (end func()) {
	go o.once.Do(o.orders)
	return func() {}
}
