package main

import (
	"testing"

	"example.com/pod-info-fuse/survive/survivetest"
)

func TestTheClockSurvives(t *testing.T) {
	survivetest.Test{Driver: driver(), Changes: func(path string) bool { return path == timeName }}.Run(t)
}
