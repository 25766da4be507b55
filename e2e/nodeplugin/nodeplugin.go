// Package nodeplugin plays the kubelet for the CSI node plugin: it starts the plugin, and asks it
// for inline volumes.
//
// The plugin mounts in the namespaces of process 1. Who uses this package must be in the same ones:
// where process 1 may be somebody else's, begin with [Command].
package nodeplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Command is a command on a node of its own, whose processes and mounts are nobody else's. A shell
// is process 1 there, because it reaps those whose parents have ended.
func Command(words ...string) *exec.Cmd {
	node := []string{"--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--mount-proc",
		"sh", "-c", `mount -t tmpfs tmpfs /run && "$@"; exit $?`, "sh"}
	return exec.Command("unshare", append(node, words...)...)
}

// A Driver is what the plugin is started for.
type Driver struct {
	Name   string // vendor/driver
	Binary string // as it is installed
	Root   string // the kubelet's directory
}

// Plugin is a plugin that serves.
type Plugin struct {
	root       string
	process    *exec.Cmd
	connection *grpc.ClientConn
	node       spec.NodeClient
}

// Start starts the plugin in namespaces of its own, as in a container that has the host's PIDs, and
// waits until it serves. It logs to a file in the kubelet's directory.
func Start(ctx context.Context, binary string, d Driver) (*Plugin, error) {
	socket := filepath.Join(d.Root, "csi.sock")
	log, err := os.Create(filepath.Join(d.Root, "csi.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Plugin{root: d.Root}
	p.process = exec.Command(binary, "serve", "--driver", d.Name, "--node-id", "node",
		"--endpoint", "unix://"+socket, "--registration-dir", "", "--kubelet-dir", d.Root, "--binary", d.Binary)
	p.process.SysProcAttr = &syscall.SysProcAttr{
		Setsid:       true, // as a pod is
		Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP,
	}
	p.process.Stdout, p.process.Stderr = log, log
	if p.connection, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, err
	}
	p.node = spec.NewNodeClient(p.connection)
	if err := p.process.Start(); err != nil {
		return nil, errors.Join(err, p.connection.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := p.node.NodeGetInfo(ctx, &spec.NodeGetInfoRequest{}, grpc.WaitForReady(true)); err != nil {
		said, _ := os.ReadFile(log.Name())
		return nil, errors.Join(fmt.Errorf("the plugin does not serve: %w; it logs %s", err, said), p.Stop())
	}
	return p, nil
}

// PID returns the PID of the plugin.
func (p *Plugin) PID() int { return p.process.Process.Pid }

// Stop ends the plugin.
func (p *Plugin) Stop() error {
	return errors.Join(p.connection.Close(), p.process.Process.Signal(unix.SIGTERM), p.process.Wait())
}

// Volume is the directory that a kubelet makes for a pod's volume. The volume is mounted on mount
// in it.
func (p *Plugin) Volume(pod string) string {
	return filepath.Join(p.root, "pods", pod, "volumes/kubernetes.io~csi/pod-info")
}

// Target is where the volume of a pod is mounted.
func (p *Plugin) Target(pod string) string { return filepath.Join(p.Volume(pod), "mount") }

// answerTimeout is how long the kubelet waits for an answer (kubernetes v1.34,
// pkg/volume/csi/csi_plugin.go, csiTimeout).
const answerTimeout = 2 * time.Minute

// Publish asks for the volume of a pod, as the kubelet does for an inline volume. Volume must be
// there.
func (p *Plugin) Publish(pod string) error {
	const prefix = "csi.storage.k8s.io/"
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	_, err := p.node.NodePublishVolume(ctx, &spec.NodePublishVolumeRequest{
		VolumeId: "csi-" + pod, TargetPath: p.Target(pod),
		VolumeCapability: &spec.VolumeCapability{
			AccessType: &spec.VolumeCapability_Mount{Mount: &spec.VolumeCapability_MountVolume{}},
			AccessMode: &spec.VolumeCapability_AccessMode{Mode: spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
		VolumeContext: map[string]string{
			prefix + "ephemeral": "true", prefix + "pod.uid": pod, prefix + "pod.name": "pod",
			prefix + "pod.namespace": "default", prefix + "serviceAccount.name": "default",
		},
	})
	return err
}

// Unpublish asks for its end.
func (p *Plugin) Unpublish(pod string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	_, err := p.node.NodeUnpublishVolume(ctx, &spec.NodeUnpublishVolumeRequest{VolumeId: "csi-" + pod, TargetPath: p.Target(pod)})
	return err
}
