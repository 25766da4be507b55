package steady

import "fmt"

// series are the samples of one process, in the order of time.
type series []sample

// quarters returns the least of each measure in the first quarter of the time
// and in the last. Garbage and clients come and go; what leaks is there in every
// sample, the least included, and half of the time has gone between the two.
func (s series) quarters() (first, last sample) {
	n := len(s) / 4
	return s[:n].least(), s[len(s)-n:].least()
}

func (s series) least() sample {
	least := s[0]
	for _, one := range s {
		for i := range measures {
			least[i] = min(least[i], one[i])
		}
	}
	return least
}

// growth tells what has grown by more than it may.
func growth(first, last sample) (grown []string) {
	for i, m := range measures {
		if last[i]-first[i] > m.growth {
			grown = append(grown, fmt.Sprintf("%s from %d to %d, by more than %d", m.name, first[i], last[i], m.growth))
		}
	}
	return grown
}
