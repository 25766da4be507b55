package command_test

import (
	"encoding/json"
	"fmt"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
	"example.com/pod-info-fuse/survive/volume"
)

// A driver with a configuration, an option of the pod's author, and a metric.
func ExampleProgram() {
	var driver survive.Driver // see package survive
	type attributes struct {
		Level string `json:"level"`
	}
	command.Program{
		Driver: driver,
		Name:   "example.com/level",
		About:  "level is a FlexVolume driver that tells pods their level.",
		// config.json is {"greeting": "hello"}. The file system has it as Site.Config.
		Configure: func(configuration []byte) (survive.Settings, error) {
			c := struct{ Greeting string }{"hello"}
			if len(configuration) > 0 {
				if err := json.Unmarshal(configuration, &c); err != nil {
					return survive.Settings{}, err
				}
			}
			return survive.Settings{Config: c.Greeting}, nil
		},
		// The file system finds the level in the volume's record, or has a default where that was
		// lost.
		Check: func(options flex.Options, record *volume.Record) (err error) {
			a := attributes{Level: "low"}
			for key, value := range options.Own() {
				if key != "level" {
					return fmt.Errorf("option %q is not known", key)
				}
				a.Level = value
			}
			record.Attributes, err = json.Marshal(a)
			return err
		},
		Status: func(n survive.Node) []command.Section {
			ids, err := n.Volumes().IDs()
			if err != nil {
				n.Log("count the volumes: %v", err)
				return nil
			}
			count := len(ids)
			return []command.Section{{
				Name: "levels", Value: count, Lines: [][2]string{{"levels", fmt.Sprint(count)}},
				Metrics: []command.Metric{{
					Name: "levels", Kind: "gauge", Help: "Volumes that have a level.",
					Samples: []command.Sample{{Value: float64(count)}},
				}},
			}}
		},
	}.Main()
}

// A program without a kubelet, and without a source: "clock mount DIR". One with a source is the
// example of package iofs.
func ExampleStandalone() {
	var driver survive.Driver // see package survive
	command.Standalone{Driver: driver, About: "clock mounts the time."}.Main()
}
