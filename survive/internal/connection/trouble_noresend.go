//go:build noresend

package connection

func init() { useResend = false }
