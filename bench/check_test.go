package main

import (
	"strings"
	"testing"
)

func TestCheckFailsForWhatIsWorse(t *testing.T) {
	expected := []expectation{{"replies", 4, 0.1}}
	for name, one := range map[string]struct {
		measured series
		worse    bool
	}{
		"as expected":       {series{4, 4, 4}, false},
		"within the margin": {series{4.3}, false},
		"better":            {series{2}, false},
		"worse":             {series{5, 5, 4}, true},
		"not measured":      {nil, true},
	} {
		b := &bench{figures: figures{"replies": one.measured}}
		err := b.compare(expected)
		if (err != nil) != one.worse {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "replies") {
			t.Errorf("%s: the error does not say what: %v", name, err)
		}
	}
}
