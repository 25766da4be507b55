package node

import (
	"fmt"
	"os"

	"example.com/pod-info-fuse/confine"
	"example.com/pod-info-fuse/connection"
	"example.com/pod-info-fuse/daemon"
	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/fs"
)

// Serve is the life of a process of the daemon's pair, which a call-out or such a
// process has started with serveArgs. It may read nothing but the run directory and
// the facts; confined says that this is enforced already.
func Serve(driver flex.Name, version, factsDir string, confined bool) error {
	if !daemon.Inherited() {
		return fmt.Errorf("%q is what the driver starts its daemon with, not a command", daemon.Verb)
	}
	n := New(driver, version, daemon.InheritedLog())
	n.FactsDir = factsDir
	err := n.serve(confined)
	if err != nil {
		n.Log("%v", err)
	}
	return err
}

// serveArgs are the arguments of the command that runs Serve.
func (n Node) serveArgs() []string {
	return []string{"--driver", n.Driver.String(), "--facts", n.FactsDir}
}

func (n Node) serve(confined bool) error {
	data, err := os.ReadFile(n.path("connection.json"))
	if err != nil {
		return err
	}
	agreed, err := connection.DecodeParams(data)
	if err != nil {
		return err
	}
	files := fs.New(n.Volumes(), n.FactsDir)
	files.Report = func(problem string) { n.Log("%s", problem) }
	return daemon.Main(daemon.Config{
		Args:       n.serveArgs(),
		Version:    n.Version,
		Params:     agreed,
		FS:         files,
		MountPoint: n.fsPath(),
		Confined:   confined,
		Files:      n.files(),
		Log:        n.Log,
	})
}

// files are what the daemon may read.
func (n Node) files() confine.Rules {
	rules := confine.Rules{Read: []string{n.RunDir}}
	// A rule for what is no directory would be refused, and all rules with it.
	if info, err := os.Stat(n.FactsDir); err == nil && info.IsDir() {
		rules.Read = append(rules.Read, n.FactsDir)
	}
	if fs.NeedsProc() {
		rules.Read = append(rules.Read, "/proc")
	}
	return rules
}
