package cgroup

import "fmt"

// join is errors.Join on one line, as a log needs it.
func join(list ...error) error {
	var joined error
	for _, err := range list {
		switch {
		case err == nil:
		case joined == nil:
			joined = err
		default:
			joined = fmt.Errorf("%w; %w", joined, err)
		}
	}
	return joined
}
