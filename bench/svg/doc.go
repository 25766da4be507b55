// Package svg draws the two kinds of plots that a comparison needs: bars side by side,
// and lines over steps that are far from each other.
//
// A plot is looked at for a moment. So every bar and every line is labelled where it
// is, with its figure, and what the plot is about has the only strong colour.
package svg
