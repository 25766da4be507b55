package volume

// IsUID tells whether text has the form of a pod's UID: an RFC 4122 UUID, as
// the API server gives, or 32 hexadecimal digits without dashes, as the kubelet
// gives to a static pod (kubernetes v1.34, pkg/kubelet/config/common.go).
func IsUID(text string) bool {
	dashes := len(text) == 36
	if !dashes && len(text) != 32 {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if dashes && (i == 8 || i == 13 || i == 18 || i == 23) {
			if c != '-' {
				return false
			}
		} else if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	return true
}
