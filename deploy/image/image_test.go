package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

func TestNameIsAnnotated(t *testing.T) {
	entries := indexManifest(t, openArchive(t)).Manifests
	if len(entries) != 1 || entries[0].MediaType != types.OCIImageIndex {
		t.Fatalf("the layout has %+v, want one index", entries)
	}
	for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
		if got, want := entries[0].Annotations[key], "example.com/pod-info-fuse:"+version; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestConfiguration(t *testing.T) {
	for platform, image := range platformImages(t) {
		file, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := file.Platform().String(); got != platform {
			t.Errorf("%s: the configuration is for %s", platform, got)
		}
		if got := strings.Join(file.Config.Entrypoint, " "); got != programs[0] || len(file.Config.Cmd) != 0 {
			t.Errorf("%s: executes %q %q", platform, got, file.Config.Cmd)
		}
		if file.Config.User != "0:0" {
			t.Errorf("%s: the user is %q", platform, file.Config.User)
		}
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range description(version) {
			if file.Config.Labels[key] != want || manifest.Annotations[key] != want {
				t.Errorf("%s: %s is %q as a label and %q as an annotation", platform, key, file.Config.Labels[key], manifest.Annotations[key])
			}
		}
	}
}

// The Dockerfile is the same image for those who use Docker.
func TestDockerfileHasTheSameLabels(t *testing.T) {
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	labels := description("$VERSION")
	for key, value := range labels {
		if !bytes.Contains(dockerfile, []byte("LABEL "+key+`="`+value+"\"\n")) {
			t.Errorf("the Dockerfile does not have %s %q", key, value)
		}
	}
	if got := bytes.Count(dockerfile, []byte("LABEL ")); got != len(labels) {
		t.Errorf("the Dockerfile has %d labels, want %d", got, len(labels))
	}
}
