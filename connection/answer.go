//go:build !lossy

package connection

// beforeAnswer is where a test build dies, between reading a request and
// answering it.
func beforeAnswer([]byte) {}
