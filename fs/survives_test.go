package fs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/survivetest"
	"example.com/pod-info-fuse/survive/volume"
)

func TestTheFilesSurvive(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"zone": "eu-1\n", "large": strings.Repeat("0123456789abcde\n", 1<<12)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	facts, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer facts.Close()
	attributes, err := fs.Attributes{Facts: fs.Facts(), BootID: "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a2"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	survivetest.Test{
		Driver: survive.Driver{
			Program: "pod-info-fuse", Reads: fs.Reads,
			FileSystem: func(site survive.Site) survive.FileSystem { return fs.New(site) },
		},
		Site: survive.Site{Input: facts},
		Volumes: []volume.Record{
			{PodName: "web-0", PodNamespace: "shop"},
			{PodName: "db", Name: "info", Attributes: json.RawMessage(attributes)},
		},
	}.Run(t)
}
