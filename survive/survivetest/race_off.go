//go:build !race

package survivetest

const raced = false
