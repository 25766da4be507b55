package main

// serve runs the daemon. The driver starts it; see package node.
func serve(args []string) error {
	set, name := flags("serve")
	if err := parse(set, args); err != nil {
		return err
	}
	d, log, err := setUp(*name)
	if err != nil {
		return err
	}
	log.Line("daemon: version %s serves", version)
	err = d.Node.Serve(func(problem string) { log.Line("daemon: %s", problem) })
	if err != nil {
		log.Line("daemon: ends: %v", err)
		return err
	}
	log.Line("daemon: ends")
	return nil
}
