//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// The machine's networks are of the blocks for documentation (RFC 5737): whatever
// network this machine has, nobody confuses them.
const (
	nodeIP        = "192.0.2.1"
	podSubnet     = "198.51.100.0/24"
	serviceSubnet = "203.0.113.0/24"
	apiServiceIP  = "203.0.113.1"
	podBridge     = "pods"
)

// setUpNetwork gives the machine an address.
func setUpNetwork() error {
	for _, args := range []string{"link set lo up", "address add " + nodeIP + "/32 dev lo"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return nil
}

// configurePodNetwork has every pod on one bridge, which is the machine's as well:
// the kubelet and the tests reach pods at their addresses.
func (c *cluster) configurePodNetwork() error {
	if err := os.Mkdir(c.CNIConf(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.CNIConf(), "pods.conflist"), harness.JSON(map[string]any{
		"cniVersion": "0.4.0",
		"name":       "pods",
		"plugins": []any{map[string]any{
			"type":      "bridge",
			"bridge":    podBridge,
			"isGateway": true,
			"ipam": map[string]any{
				"type":    "host-local",
				"dataDir": filepath.Join(c.Dir, "addresses"),
				"ranges":  []any{[]any{map[string]string{"subnet": podSubnet}}},
				"routes":  []any{map[string]string{"dst": "0.0.0.0/0"}},
			},
		}},
	}), 0o644)
}
