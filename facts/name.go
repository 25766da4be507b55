package facts

import "fmt"

// MaxName is the longest name of a fact, in bytes.
const MaxName = 64

// checkName says why a name cannot be a fact's. What is allowed is plain in a
// shell, in a URL, and in whatever a pod does with it.
func checkName(name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("its name has more than %d characters", MaxName)
	}
	for i, c := range []byte(name) {
		plain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !plain && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Errorf("its name is not plain: [a-z0-9][a-z0-9._-]*")
		}
	}
	return nil
}
