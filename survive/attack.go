//go:build attack

package survive

import (
	"os"

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
			return ordering{files, files.(Sharer), files.(Prompter), func() { attack.OnMounter(n.RunDir, given[1], given[0], n.Log) }}
		}
		return attack.Lie(n.Version, n.fsPath(), files)
	}
}

// ordering does not use what the process was given, and leaves it to who gives orders of its own: in each
// process that serves, as one that gets no processor for seconds is replaced.
type ordering struct {
	FileSystem
	Sharer
	Prompter
	orders func()
}

func (ordering) Hold(Request) bool { return false }

func (ordering) Interrupted(uint64) {}

func (o ordering) Begin(Answerer) (end func()) {
	go o.orders()
	return func() {}
}
