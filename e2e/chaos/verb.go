package main

import "context"

// verbs are what a trial can do to a driver that has readers. The number is how
// often, unless --rounds tells.
var verbs = map[string]struct {
	do     func(*trial, context.Context) error
	rounds int
}{
	"kill":    {do: (*trial).kill},
	"hang":    {(*trial).hang, 3},
	"upgrade": {(*trial).upgrade, 20},
	"lossy":   {(*trial).lossy, 20},
	"soak":    {do: (*trial).soak},
	"idmap":   {do: (*trial).idmap},
}
