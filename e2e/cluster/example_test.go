//go:build cluster

package cluster

import (
	"encoding/json"
	"strings"
	"testing"
)

// examples returns the objects of a file of deploy/examples, with the one change
// that they need here: an image that no registry has to be asked for.
func examples(t *testing.T, file string) []object {
	t.Helper()
	out := kubectl(t, "create", "--dry-run=client", "-o", "json", "-f", "../../deploy/examples/"+file)
	var objects []object
	for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
		var o object
		if err := decoder.Decode(&o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if o["kind"] == "Pod" {
			for _, c := range o["spec"].(object)["containers"].([]any) {
				c.(object)["image"], c.(object)["imagePullPolicy"] = testImage, "Never"
			}
		}
		objects = append(objects, o)
	}
	return objects
}

// runExample runs the pod of an example and checks what it reads.
func runExample(t *testing.T, file string) {
	t.Helper()
	objects := examples(t, file)
	create(t, objects...)
	for _, o := range objects {
		if o["kind"] == "Pod" {
			container := o["spec"].(object)["containers"].([]any)[0].(object)
			dir := container["volumeMounts"].([]any)[0].(object)["mountPath"].(string)
			waitForPod(t, o["metadata"].(object)["name"].(string)).checkFiles(t, dir)
			return
		}
	}
	t.Errorf("%s has no pod", file)
}

func testExample(t *testing.T) { runExample(t, "pod.yaml") }

// Through a claim, a pod may have a volume where it may not have a FlexVolume.
func testPersistentVolume(t *testing.T) {
	const level = "pod-security.kubernetes.io/enforce"
	kubectl(t, "label", "namespace", "default", level+"=restricted")
	t.Cleanup(func() { kubectl(t, "label", "namespace", "default", level+"-") })
	err := admission(newPod("restricted", flexVolume(driverName), stays...), "restricted volume types")
	if err != nil {
		t.Error(err)
	}
	runExample(t, "persistent-volume.yaml")
}
