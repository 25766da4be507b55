package cli

// closest returns the word that takes the fewest edits, "" if all take more than half of
// the name's letters.
func closest(name string, words []string) (best string) {
	least := len(name)/2 + 1
	for _, word := range words {
		if n := edits(name, word); n < least {
			best, least = word, n
		}
	}
	return best
}

// edits counts the letters to insert, remove or replace that make a word of another one
// (Levenshtein's distance, in the table of Wagner and Fischer).
func edits(from, to string) int {
	row := make([]int, len(to)+1) // from what was read of from, to each beginning of to
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		diagonal := i
		row[0] = i + 1
		for j := range len(to) {
			least := diagonal
			if from[i] != to[j] {
				least = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], least
		}
	}
	return row[len(to)]
}
