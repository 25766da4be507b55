//go:build attack

package survive

import (
	"os"
	"slices"

	"example.com/pod-info-fuse/e2e/attack"
)

// A test build tries everything that a confined process must not be able to do, and logs the
// results. It may also lie, as its version says.
func init() {
	confined = func(n Node, given []*os.File) {
		const log = 7 // see package pair
		for _, a := range attack.On(n.rules(nil), n.RunDir, n.path("connection.json"), os.Getppid(), log) {
			if err := a.Try(); err != nil {
				n.Log("attack refused: %s: %v", a.Name, err)
			} else {
				n.Log("attack succeeded: %s", a.Name)
			}
		}
		n.Log("attacks end")
		if n.Version == attack.Orders && !slices.Contains(os.Args, "--confined") {
			go attack.OnMounter(n.RunDir, given[1], given[0], n.Log)
		}
	}
	answering = func(n Node, files FileSystem) FileSystem { return attack.Lie(n.Version, n.fsPath(), files) }
}
