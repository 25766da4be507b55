//go:build !broken

package main

// serve is a process of the daemon's pair. The driver starts it; see package
// daemon.
func serve(args []string) error {
	set, name := flags("serve")
	if err := parse(set, args); err != nil {
		return err
	}
	d, _, err := setUp(*name)
	if err != nil {
		return err
	}
	err = d.Node.Serve()
	if err != nil {
		d.Node.Log("%v", err)
	}
	return err
}
