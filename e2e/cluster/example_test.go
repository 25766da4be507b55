//go:build cluster

package cluster

import (
	"encoding/json"
	"strings"
	"testing"
)

// objectsIn returns the objects of a file of deploy/examples.
func objectsIn(t *testing.T, file string) (objects []object) {
	t.Helper()
	out := kubectl(t, "create", "--dry-run=client", "-o", "json", "-f", "../../deploy/examples/"+file)
	for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
		var o object
		if err := decoder.Decode(&o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, o)
	}
	return objects
}

// podSecurity is the label of a namespace with the level that its pods must have.
const podSecurity = "pod-security.kubernetes.io/enforce"

// label gives a namespace a label until the test ends.
func label(t *testing.T, namespace, key, value string) {
	t.Helper()
	kubectl(t, "label", "namespace", namespace, key+"="+value)
	t.Cleanup(func() { kubectl(t, "label", "namespace", namespace, key+"-") })
}

// runExample runs the pod of an example and checks what it reads.
func runExample(t *testing.T, file string) {
	t.Helper()
	objects := objectsIn(t, file)
	create(t, objects...)
	for _, o := range objects {
		if o["kind"] == "Pod" {
			container := o["spec"].(object)["containers"].([]any)[0].(object)
			p := podOf(o)
			p.wait(t)
			p.checkFiles(t, container["volumeMounts"].([]any)[0].(object)["mountPath"].(string))
			return
		}
	}
	t.Errorf("%s has no pod", file)
}

// Through a claim, a pod may have a volume where it may not have a FlexVolume.
func testPersistentVolume(t *testing.T) {
	label(t, "default", podSecurity, "restricted")
	err := admission(newPod("restricted", flexVolume(driverName), stays...), "restricted volume types")
	if err != nil {
		t.Error(err)
	}
	runExample(t, "persistent-volume.yaml")
}
