package harness

import (
	"maps"
	"path/filepath"
)

// KubeletSysctls are what the kubelet sets when it starts.
var KubeletSysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// KubeletConf is the path of the kubelet's configuration.
func (n *Node) KubeletConf() string { return filepath.Join(n.Dir, "kubelet.json") }

// KubeletConfiguration is a kubelet's on a machine that it does not own: the
// firewall, swap and free space stay as they are, and so do the cgroups but for
// those of pods. Own is what the suite adds.
func (n *Node) KubeletConfiguration(own map[string]any) []byte {
	settings := map[string]any{
		"apiVersion":                    "kubelet.config.k8s.io/v1beta1",
		"kind":                          "KubeletConfiguration",
		"containerRuntimeEndpoint":      "unix://" + n.Socket(),
		"healthzPort":                   0,
		"cgroupDriver":                  "cgroupfs",
		"cgroupsPerQOS":                 false,
		"enforceNodeAllocatable":        []string{},
		"makeIPTablesUtilChains":        false,
		"failCgroupV1":                  false, // else kubelets from 1.35 refuse such a machine
		"failSwapOn":                    false,
		"localStorageCapacityIsolation": false,
		"imageGCHighThresholdPercent":   100,
		"evictionHard": map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
	}
	maps.Copy(settings, own)
	return JSON(settings)
}
