//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// recordedPods are the pods whose volumes' mount calls are recorded. UIDs are
// written out where they look as the API server makes them.
var recordedPods = []struct {
	name, uid, comment string
	change             func(*manifest)
}{
	{"static", "", "A static pod, whose UID the kubelet makes", func(*manifest) {}},
	{"plain", "6e0f5b0c-52b1-4f43-8c57-1f0d0f2f7a01", "A pod with a UID as the API server makes it", func(*manifest) {}},
	{"fs-group", "6e0f5b0c-52b1-4f43-8c57-1f0d0f2f7a02", "A pod with fsGroup: 4242", func(m *manifest) {
		m.Spec.SecurityContext = &podSecurity{FSGroup: 4242}
	}},
	{"read-only", "6e0f5b0c-52b1-4f43-8c57-1f0d0f2f7a03", "A pod whose volume has readOnly: true", func(m *manifest) {
		m.Spec.Volumes[0].FlexVolume.ReadOnly = true
	}},
	{"two", "6e0f5b0c-52b1-4f43-8c57-1f0d0f2f7a04", "A pod with two volumes of the driver", addSecondVolume},
	{"option", "6e0f5b0c-52b1-4f43-8c57-1f0d0f2f7a05", "A pod whose author gave the volume an option, colour: red", func(m *manifest) {
		m.Spec.Volumes[0].FlexVolume.Options = map[string]string{"colour": "red"}
	}},
}

// The driver's unit tests replay how a kubelet calls the driver, from testdata.
// This test has the kubelet call the recorder and compares.
func TestArguments(t *testing.T) {
	t.Parallel()
	var pods []*testPod
	for _, recorded := range recordedPods {
		m := newManifest(recorded.name)
		m.Metadata.Name = recorded.name // it is in the recording
		m.Metadata.UID = recorded.uid
		recorded.change(m)
		for _, v := range m.Spec.Volumes {
			v.FlexVolume.Driver = recordedName
		}
		pods = append(pods, createPod(t, m))
	}
	static := pods[0]
	check := func(file, comment string, argv ...string) {
		t.Helper()
		checkTestdata(t, file, comment, testNode.call(t, argv...), strings.NewReplacer(
			testNode.kubeletRoot(), "/var/lib/kubelet",
			// It comes from the manifest's path too.
			static.uid, "0123456789abcdef0123456789abcdef"))
	}

	check("init", "The kubelet found the driver.", "init")
	for i, p := range pods {
		for _, v := range p.Spec.Volumes {
			file, comment := "mount-"+p.Metadata.Name, recordedPods[i].comment
			if len(p.Spec.Volumes) > 1 {
				file, comment = file+"-"+v.Name, comment+", this one is "+v.Name
			}
			check(file, comment+".", "mount", filepath.Join(p.volumeDirs(recordedName), v.Name))
		}
	}
	if err := static.delete(); err != nil {
		t.Error(err)
	}
	check("unmount", "A static pod was deleted.", "unmount", filepath.Join(static.volumeDirs(recordedName), "pod-info"))
}

// call waits for a call of the recorded driver whose first arguments are these,
// and returns all of its arguments.
func (n *node) call(t *testing.T, first ...string) (argv []string) {
	t.Helper()
	err := harness.Eventually(startLimit, func() error {
		calls, err := os.ReadFile(filepath.Join(n.driver(recordedName).Dir, ".calls"))
		if err != nil {
			return err
		}
		for line := range bytes.Lines(calls) {
			if err := json.Unmarshal(line, &argv); err != nil {
				return fmt.Errorf("recorded call %q: %w", line, err)
			}
			if len(argv) >= len(first) && slices.Equal(argv[:len(first)], first) {
				return nil
			}
		}
		return errors.New("the kubelet has not called the driver with these arguments")
	})
	if err != nil {
		t.Fatalf("%q: %v", first, err)
	}
	return argv
}
