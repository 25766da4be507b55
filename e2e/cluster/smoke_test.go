//go:build cluster

package cluster

import (
	"strings"
	"testing"
)

// That a pod runs, and has an address that the kubelet reaches, is what the other
// tests build on.
func TestCluster(t *testing.T) {
	kubectl(t, "run", "smoke", "--image="+testImage, "--command", "--", "sh", "-c", "sleep 100000")
	kubectl(t, "wait", "--for=condition=Ready", "--timeout=4m", "pod/smoke")
	if out := kubectl(t, "exec", "smoke", "--", "cat", "/proc/sys/kernel/hostname"); out != "smoke\n" {
		t.Errorf("the host name in the pod is %q, want smoke", out)
	}
	if ip := kubectl(t, "get", "pod", "smoke", "-o", "jsonpath={.status.podIP}"); !strings.HasPrefix(ip, "198.51.100.") {
		t.Errorf("the pod has the address %q, want one of %s", ip, podSubnet)
	}
	kubectl(t, "delete", "pod", "smoke", "--now")
}
