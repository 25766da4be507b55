//go:build race

package survivetest

// raced: the race detector needs cgo, with which no process can be confined.
const raced = true
