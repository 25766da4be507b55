//go:build cluster

package cluster

import (
	"crypto/x509/pkix"
	"net"
	"os"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

const apiServer = "https://" + nodeIP + ":6443"

// clients are who talks to the API server, with the names that its authorization
// knows them by.
var clients = map[string]pkix.Name{
	"admin":                   {CommonName: "admin", Organization: []string{"system:masters"}},
	"kubelet":                 {CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
	"kube-scheduler":          {CommonName: "system:kube-scheduler"},
	"kube-controller-manager": {CommonName: "system:kube-controller-manager"},
}

// makeCertificates makes all keys and certificates of the cluster, and a
// configuration for each client.
func (c *cluster) makeCertificates() (err error) {
	if c.authority, err = newAuthority(c.file("ca.crt")); err != nil {
		return err
	}
	for client, subject := range clients {
		if err := c.authority.issue(c.file(client), subject); err != nil {
			return err
		}
		if err := os.WriteFile(c.kubeconfig(client), c.clientConfiguration(client), 0o600); err != nil {
			return err
		}
	}
	// One that service accounts' tokens are signed with.
	if err := c.authority.issue(c.file("tokens"), pkix.Name{CommonName: "tokens"}); err != nil {
		return err
	}
	return c.authority.issue(c.file("kube-apiserver"), pkix.Name{CommonName: "kube-apiserver"},
		net.ParseIP(nodeIP), net.ParseIP(apiServiceIP))
}

func (c *cluster) kubeconfig(client string) string { return c.file(client + ".kubeconfig") }

func (c *cluster) clientConfiguration(client string) []byte {
	return harness.JSON(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": "e2e",
		"contexts":        []any{map[string]any{"name": "e2e", "context": map[string]string{"cluster": "e2e", "user": client}}},
		"clusters": []any{map[string]any{"name": "e2e", "cluster": map[string]string{
			"server": apiServer, "certificate-authority": c.file("ca.crt"),
		}}},
		"users": []any{map[string]any{"name": client, "user": map[string]string{
			"client-certificate": c.file(client + ".crt"), "client-key": c.file(client + ".key"),
		}}},
	})
}
