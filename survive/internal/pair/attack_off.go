//go:build !attack

package pair

// attack is what a test build does once it is confined.
func (*process) attack() {}

// stay is what a test build does when another process serves in its place.
func (*active) stay() {}

// pretends is what a test build does in the place of a hand-over.
func (*active) pretends() (does, done bool) { return false, false }
