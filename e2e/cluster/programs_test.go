//go:build cluster

package cluster

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// programValues list two programs for pods: one that takes /dev/fd/N, and one that calls fusermount.
const programValues = `podFuse.programs={"loopback":{"image":"` + testImage + `","command":["loopback","/source/$(directory)","{}"],` +
	`"options":["directory"],"env":{"directory":"."},"source":{"mountPath":"/source"},"resources":{"limits":{"memory":"64Mi"}}},` +
	`"mounts":{"image":"` + testImage + `","command":["loopback","/source","$(mountpoint)"],"env":{"PATH":"/bin:/usr/bin"},"source":{"mountPath":"/source"}}}`

// asksForAProgram is a pod of the level restricted, whose volume says what serves it, with more options.
func asksForAProgram(name string, more object, command string) object {
	options := object{"program": "loopback", "source": "shown", "wait": "2m"}
	maps.Copy(options, more)
	pod := newPod(name, object{"csi": object{"driver": podFuseCSIName, "volumeAttributes": options}}, "sh", "-c", command)
	spec := pod["spec"].(object)
	spec["volumes"] = append(spec["volumes"].([]any), object{"name": "shown", "emptyDir": object{}})
	return in("programs", restricted(pod))
}

// The API server puts programs into pods that name them, in a namespace of the level restricted, and
// says what is wrong with others. Their volumes survive them, and pods that end do so with them.
func testProgramsByName(t *testing.T) {
	const file = infoDir + "/file"
	for _, row := range []struct {
		more   object
		denied string
	}{
		{object{"program": "other"}, "Volume pod-info: there is no program other. Programs: loopback, mounts."},
		{object{"-o": "dev"}, "Volume pod-info: program loopback has no option -o. Options: directory, wait, default_permissions, source."},
	} {
		// The API server may not have the policy at once.
		if err := harness.Eventually(startLimit, func() error { return admission(asksForAProgram("denied", row.more, "true"), row.denied) }); err != nil {
			t.Error(err)
		}
	}
	ends := asksForAProgram("ends", object{"program": "mounts"}, "echo content > "+file+` && [ "$(cat `+file+`)" = content ]`)
	ends["spec"].(object)["restartPolicy"] = "Never"
	err := harness.Eventually(startLimit, func() error {
		out, err := testCluster.kubectlWith(harness.JSON(ends), "create", "--dry-run=server", "-o", "yaml", "-f", "-")
		if err == nil && !strings.Contains(out, "pod-info-program") {
			err = fmt.Errorf("no program is added:\n%s", out)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	reader := asksForAProgram("reader", nil, "echo content > "+file+" && while out=$(stat -c %s "+file+" 2>&1); do echo $out; sleep 0.02; done; echo \"$out\"; exit 1")
	labels := object{"app": "reader"}
	create(t, in("programs", object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "reader"}, "spec": object{
		"selector": object{"matchLabels": labels},
		"template": object{"metadata": object{"labels": labels}, "spec": reader["spec"]},
	}}))
	for range 2 { // a bare pod, applied again
		if _, err := testCluster.kubectlWith(harness.JSON(ends), "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, "-n", "programs", "rollout", "status", "deployment/reader", "--timeout=2m")
	p := pod{kubectl(t, "-n", "programs", "get", "pods", "-l", "app=reader", "-o", "jsonpath={.items[0].metadata.name}"), "programs"}
	p.goesOn(t)
	p.execIn(t, "pod-info-program", "sh", "-c", `for p in /proc/[0-9]*; do [ "$(cat "$p/comm")" != loopback ] || { kill -9 "${p#/proc/}" && exit; }; done; exit 1`)
	p.goesOn(t)
	if _, err := testCluster.kubectl("-n", "programs", "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/ends", "--timeout=2m"); err != nil {
		log, _ := testCluster.kubectl("-n", "programs", "logs", "ends", "--all-containers", "--prefix", "--tail=10")
		t.Errorf("%v\n%s", err, log)
	}
	kubectl(t, "-n", "programs", "delete", "pod", "ends", "--timeout=4m")
}
