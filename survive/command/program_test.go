package command

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/survive"
)

func TestCommandsOfADriversOwnHaveNamesOfTheirOwn(t *testing.T) {
	for name, free := range map[string]bool{
		"selinux": true, "status": false, "watch": false, "help": false, "version": false, "mount": false, "attach": false, "serve": false, "heal": false,
	} {
		ran := false
		p := Program{Driver: survive.Driver{Program: "clock"}, Commands: []Command{
			{Name: "own", Prepare: func(*pflag.FlagSet) func([]string) error {
				return func([]string) error { ran = true; return nil }
			}},
			{Name: name, Prepare: func(*pflag.FlagSet) func([]string) error { return nil }},
		}}
		err := p.execute("own", nil, time.Now())
		if ran != free || !free && (err == nil || !strings.Contains(err.Error(), `"`+name+`" already`)) {
			t.Errorf("beside one of the name %q: it ran: %v, %v", name, ran, err)
		}
	}
}

func TestASectionDoesNotReplaceWhatStatusTells(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	os.Stdout = null
	for name, free := range map[string]bool{"facts": true, "daemon": false, "driver": false} {
		if err := printJSON(survive.CallOuts{}, survive.Status{}, []Section{{Name: name}}); (err == nil) != free {
			t.Errorf("a section %q: %v", name, err)
		}
	}
}
