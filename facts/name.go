package facts

import "fmt"

// MaxName is the longest name of a fact, in bytes.
const MaxName = 64

// Check says why a file of a name and a size, in bytes, cannot be a fact.
func Check(name string, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	if size > MaxSize {
		return fmt.Errorf("it has %d bytes, more than %d", size, MaxSize)
	}
	return nil
}

// checkName says why a name cannot be a fact's. What is allowed is plain in a
// shell, in a URL, and in whatever a pod does with it.
func checkName(name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("its name has more than %d characters", MaxName)
	}
	if name == "" {
		return fmt.Errorf("it has no name")
	}
	for i, c := range []byte(name) {
		plain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !plain && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Errorf("its name is not plain: [a-z0-9][a-z0-9._-]*")
		}
	}
	return nil
}
