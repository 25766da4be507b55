//go:build newer

package pair

// format is that of a test build, which is newer.
const format = 2
