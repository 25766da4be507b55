//go:build !noresend

package connection

// useResend is off in a test build, which behaves as on Linux before 6.9.
const useResend = true
