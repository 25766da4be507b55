//go:build e2e

package e2e

import (
	"errors"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// An option that the driver does not know is a mistake in the pod, and its author
// has to see which.
func TestUnknownOption(t *testing.T) {
	t.Parallel()
	m := newManifest("unknown-option")
	m.Spec.Volumes[0].FlexVolume.Options = map[string]string{"colour": "red"}
	p := createPod(t, m)

	var events []string
	err := harness.Eventually(startLimit, func() (err error) {
		events, err = p.node.LogLines("kubelet", `reason="FailedMount"`, m.Metadata.Name)
		if err == nil && len(events) == 0 {
			err = errors.New("there is no event of a mount that failed")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(events[0], "colour") {
		t.Errorf("the event does not name the option: %s", events[0])
	}
	if _, err := p.container("main"); err == nil {
		t.Error("the pod runs all the same")
	}
}
