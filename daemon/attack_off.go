//go:build !attack

package daemon

// attack is what a test build does once it is confined.
func (*process) attack() {}
