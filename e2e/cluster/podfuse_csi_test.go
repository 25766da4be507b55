//go:build cluster

package cluster

import (
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// podFuseCSIName is the driver's where pods ask for it as a CSI driver.
const podFuseCSIName = "pod-fuse.example.com"

// A pod that complies with the level restricted runs a FUSE program, and its volume survives the
// program.
func testPodFuseByCSI(t *testing.T, p pod) {
	p.readsProgram(t, "at first")
	p.execIn(t, "program", "sh", "-c", "kill -9 $(cat /mnt/shown/pid)")
	p.readsProgram(t, "after the death of the program")
}

// readsProgram checks that a pod of podFuseByCSI reads what its program serves.
func (p pod) readsProgram(t *testing.T, when string) {
	t.Helper()
	if got := p.execIn(t, "main", "cat", infoDir+"/file"); got != "content\n" {
		t.Errorf("%s: read %q", when, got)
	}
}

// Two pods have the client volume by one claim, one of them read-only. Each has a program and a
// server volume of its own, which names the persistent volume. A server volume by a claim would let
// pods without the label have programs.
func testPodFuseByClaim(t *testing.T) {
	server := newClaim("server", csiNamespace, podFuseCSIName, object{"serves": "data"})
	err := harness.Eventually(startLimit, func() error { return admission(server[0], "cannot be a server volume") })
	if err != nil {
		t.Error(err)
	}
	const claim = "fuse.data"
	create(t, newClaim(claim, csiNamespace, podFuseCSIName, object{"wait": "2m"})...)
	definitions := []object{restricted(podFuseByCSI("claim-1")), restricted(podFuseByCSI("claim-2"))}
	for i, definition := range definitions {
		in(csiNamespace, definition)
		volumes := definition["spec"].(object)["volumes"].([]any)
		source := claimVolume(claim)
		source["persistentVolumeClaim"].(object)["readOnly"] = i == 0
		source["name"] = volumes[0].(object)["name"]
		volumes[0] = source
		volumes[1].(object)["csi"].(object)["volumeAttributes"] = object{"serves": claim}
	}
	pods := runPods(t, definitions...)
	shell := func(p pod, container, script string) (string, error) {
		return p.kubectl("exec", p.name, "-c", container, "--", "sh", "-c", script)
	}
	for _, p := range pods {
		if got, err := shell(p, "main", "cat "+infoDir+"/file"); err != nil || got != "content\n" {
			t.Errorf("the pod %s reads %q, %v", p.name, got, err)
		}
		if _, err := shell(p, "program", "echo "+p.name+" >/mnt/shown/name; kill -9 $(cat /mnt/shown/pid)"); err != nil {
			t.Error(err)
		}
		if got, err := shell(p, "main", "cat "+infoDir+"/name"); err != nil || got != p.name+"\n" {
			t.Errorf("after the death of the program, the pod %s reads %q, %v", p.name, got, err)
		}
	}
	if _, err := shell(pods[0], "main", "echo >"+infoDir+"/new"); err == nil || !strings.Contains(err.Error(), "Read-only file system") {
		t.Errorf("the pod %s, whose claim is read-only, writes: %v", pods[0].name, err)
	}
	if _, err := shell(pods[1], "main", "echo >"+infoDir+"/new"); err != nil {
		t.Error(err)
	}
}

// podFuseByCSI is a pod whose container program serves the volume that main has.
func podFuseByCSI(name string) object {
	source := func(key, value string) object {
		return object{"csi": object{"driver": podFuseCSIName, "volumeAttributes": object{key: value}}}
	}
	pod := newPod(name, source("wait", "2m"), stays...)
	spec := pod["spec"].(object)
	server := source("serves", "pod-info")
	server["name"] = "server"
	spec["volumes"] = append(spec["volumes"].([]any), server, object{"name": "shown", "emptyDir": object{}})
	spec["containers"] = append(spec["containers"].([]any), object{
		"name": "program", "image": testImage, "imagePullPolicy": "Never",
		"command": []string{"sh", "-c", `echo content > /mnt/shown/file &&
			exec /run/pod-fuse/pod-fuse run --restart -- sh -c 'echo $$$$ > /mnt/shown/pid; exec loopback /mnt/shown "$0"' '{}'`},
		"volumeMounts": []any{object{"name": "server", "mountPath": "/run/pod-fuse"}, object{"name": "shown", "mountPath": "/mnt/shown"}},
	})
	return pod
}
