// Package svg draws the two kinds of plots that a comparison needs: bars side by side,
// and lines over steps that are far from each other. A third is the course of what is to stay
// as it is.
//
// A plot is looked at for a moment. So every bar and every line is labelled where it
// is, with its figure, and what a comparison is about has the only strong colour.
package svg
