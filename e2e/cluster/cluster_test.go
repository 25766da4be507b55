//go:build cluster

package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

const (
	nodeName = "node-1"
	// clusterDir is where everything of the cluster is, on its machine.
	clusterDir = "/run/e2e"
	// bin is where e2e/setup.sh builds.
	bin = "../bin"
	// productImage is the driver's, without its version.
	productImage = "example.com/pod-info-fuse"
	// testImage is of the tests' pods and of all sandboxes. It has the driver's
	// program, whose watch reads again and again.
	testImage = "e2e.example.com/busybox:e2e"
	// busyboxImage is what the examples call busybox.
	busyboxImage = "docker.io/library/busybox:latest"
	// pluginDir is not the kubelet's default: the installer has to find it out.
	pluginDir = "/opt/e2e-volume-plugins"
)

// nextBinary is the driver's binary in a later version, of which there is an image.
var nextBinary = filepath.Join(bin, "next/linux-"+runtime.GOARCH+"/pod-info-fuse")

// A cluster is a control plane and one node.
type cluster struct {
	harness.Node
	authority *authority
	kubelet   *harness.Process
}

func newCluster() *cluster { return &cluster{Node: harness.Node{Dir: clusterDir}} }

// startCluster starts everything and waits for the node. The cluster is never
// stopped: the machine is. It is returned even when an error is, for its logs.
func startCluster() (*cluster, error) {
	c := newCluster()
	err := errors.Join(harness.UseRuntime(bin), os.Mkdir(c.Dir, 0o755))
	for _, step := range []func() error{
		c.makeCertificates,
		c.startControlPlane,
		c.startContainerd,
		c.waitForAPI,
		c.startControllers,
		c.startKubelet,
		c.waitForNode,
	} {
		if err == nil {
			err = step()
		}
	}
	return c, err
}

func (c *cluster) startContainerd() error {
	err := errors.Join(c.configurePodNetwork(), c.StartContainerd(testImage))
	if err != nil {
		return err
	}
	for _, archive := range []string{"../../bin/image.tar", filepath.Join(bin, "next/image.tar")} {
		if err := c.ImportImages(archive); err != nil {
			return err
		}
	}
	programs := map[string]string{"pod-info-fuse": "../../bin/pod-info-fuse", "loopback": filepath.Join(bin, "fs-loopback")}
	return errors.Join(
		c.ImportImage(harness.Image{Name: testImage, Programs: programs}),
		c.ImportImage(harness.Image{Name: busyboxImage}))
}

// file is the path of a file of the cluster's.
func (c *cluster) file(name string) string { return filepath.Join(c.Dir, name) }
