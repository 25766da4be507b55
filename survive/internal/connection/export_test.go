package connection

// InterruptOrphans is what Recover does before Linux 6.9.
func (c *Connection) InterruptOrphans(mountPoint string) error {
	return c.interruptOrphans(mountPoint)
}
