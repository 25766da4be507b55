//go:build noresend

package connection

const useResend = false
