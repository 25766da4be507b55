//go:build cluster

package cluster

import (
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// An object is one of the API's, as JSON has it.
type object = map[string]any

// infoDir is where the tests' pods have their volume.
const infoDir = "/mnt/pod-info"

// newPod is a pod with one container, main, and one volume.
func newPod(name string, source object, command ...string) object {
	volume := object{"name": "pod-info"}
	for key, value := range source {
		volume[key] = value
	}
	return object{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   object{"name": name},
		"spec": object{
			"terminationGracePeriodSeconds": 1,
			"containers": []any{object{
				"name":            "main",
				"image":           testImage,
				"imagePullPolicy": "Never",
				"command":         command,
				"volumeMounts":    []any{object{"name": "pod-info", "mountPath": infoDir}},
			}},
			"volumes": []any{volume},
		},
	}
}

// flexVolume is a volume's source.
func flexVolume(driver string, options ...string) object {
	source := object{"driver": driver}
	if len(options) > 0 {
		keys := object{}
		for _, key := range options {
			keys[key] = "value"
		}
		source["options"] = keys
	}
	return object{"flexVolume": source}
}

// csiVolume is a volume's source through the other door.
func csiVolume() object { return object{"csi": object{"driver": csiName}} }

// claimVolume is a volume's source by a claim.
func claimVolume(name string) object {
	return object{"persistentVolumeClaim": object{"claimName": name}}
}

// newClaim are a persistent volume by CSI and a claim for it in a namespace, both of one name.
func newClaim(name, namespace, driver string, attributes object) []object {
	return []object{
		{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": object{"name": name}, "spec": object{
			"csi":         object{"driver": driver, "volumeHandle": name, "volumeAttributes": attributes},
			"capacity":    object{"storage": "1Mi"},
			"accessModes": []any{"ReadWriteMany"}, "persistentVolumeReclaimPolicy": "Retain",
			"claimRef": object{"name": name, "namespace": namespace},
		}},
		in(namespace, object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": name}, "spec": object{
			"accessModes": []any{"ReadWriteMany"}, "resources": object{"requests": object{"storage": "1Mi"}},
			"storageClassName": "", "volumeName": name,
		}}),
	}
}

// in puts an object into a namespace.
func in(namespace string, definition object) object {
	definition["metadata"].(object)["namespace"] = namespace
	return definition
}

// as has a pod run as a user.
func as(user int, pod object) object {
	pod["spec"].(object)["securityContext"] = object{"runAsUser": user}
	return pod
}

// restricted has a pod comply with the level restricted of Pod Security.
func restricted(pod object) object {
	pod["spec"].(object)["securityContext"] = object{
		"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": object{"type": "RuntimeDefault"},
	}
	for _, c := range pod["spec"].(object)["containers"].([]any) {
		c.(object)["securityContext"] = object{
			"allowPrivilegeEscalation": false, "capabilities": object{"drop": []any{"ALL"}},
		}
	}
	return pod
}

// newNamespace makes a namespace, if no test has made it before. It stays until the end of the
// cluster: it takes more than five seconds to delete one (kubernetes v1.37,
// namespaceDeletionGracePeriod).
func newNamespace(t *testing.T, name string) {
	t.Helper()
	if _, err := testCluster.kubectl("create", "namespace", name); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		t.Fatal(err)
	}
}

// newPersistentVolume has the volume's source, too.
func newPersistentVolume(name string, source object) object {
	spec := object{
		"capacity":    object{"storage": "1Mi"},
		"accessModes": []any{"ReadOnlyMany"},
	}
	for key, value := range source {
		spec[key] = value
	}
	return object{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": object{"name": name}, "spec": spec}
}

// create makes objects, which the end of the test deletes.
func create(t *testing.T, objects ...object) {
	t.Helper()
	list := list(objects)
	t.Cleanup(func() {
		if _, err := testCluster.kubectlWith(list, "delete", "--ignore-not-found", "--timeout=4m", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	if _, err := testCluster.kubectlWith(list, "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

func list(objects []object) []byte {
	return harness.JSON(object{"apiVersion": "v1", "kind": "List", "items": objects})
}
