package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// twoDoors has this program measure requests to the CSI plugin on a node of its own: the plugin
// mounts in the namespaces of process 1, which elsewhere may be somebody else's.
func (b *bench) twoDoors() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// A shell is process 1, because it reaps those whose parents have ended.
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount", "--cgroup", "--mount-proc",
		"sh", "-c", `mount -t tmpfs tmpfs /run && "$@"; exit $?`, "sh",
		self, "doors", "--driver-binary", b.settings.binary, "--plugin-binary", b.settings.plugin)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("on a node of its own: %w", err)
	}
	return json.Unmarshal(output, &b.figures) // beside those that are there
}

// doors is the process that measures there, and prints its figures.
func doors(args []string) error {
	flags := flag.NewFlagSet("doors", flag.ContinueOnError)
	var s settings
	flags.StringVar(&s.binary, "driver-binary", "", "")
	flags.StringVar(&s.plugin, "plugin-binary", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	b := &bench{settings: s, ctx: ctx, figures: figures{}, began: time.Now()}
	if err := b.with(b.byTurns); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(b.figures)
}

// publishes is after how many of them the plugin's memory is measured. There are two in a round.
const publishes = 1000

// byTurns measures what a volume costs through each door, and the plugin's memory afterwards.
func (b *bench) byTurns() (err error) {
	const guest = 1 << 20
	mount := func() (float64, error) { c, err := b.driver.mount(guest); return c.wall, err }
	unmount := func() (float64, error) { c, err := b.driver.unmount(guest); return c.wall, err }
	// From here on there is a daemon, which no request has to start.
	if _, err := mount(); err != nil {
		return err
	}
	if _, err := unmount(); err != nil {
		return err
	}
	if _, err := b.driver.pids(); err != nil {
		return err
	}
	p, err := b.startPlugin(guest)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	for range publishes / 2 {
		for _, turn := range []struct {
			what string
			do   func() (float64, error)
		}{
			{"publish", p.publish}, {"publish again", p.publish}, {"unpublish", p.unpublish},
			{"mount", mount}, {"mount again", mount}, {"unmount", unmount},
		} {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			wall, err := turn.do()
			if err != nil {
				return fmt.Errorf("%s: %w", turn.what, err)
			}
			b.figures.add(doorName(turn.what), wall)
		}
	}
	pid := p.process.Process.Pid
	private, _, err := memoryOf([]int{pid})
	if err != nil {
		return err
	}
	anonymous, err := fieldsOf(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Anonymous:")
	b.figures.add("memory/plugin/uss", private)
	b.figures.add("memory/plugin/anonymous", float64(anonymous))
	return err
}

// plugin is a CSI plugin, and the volume that it is asked for.
type plugin struct {
	process    *exec.Cmd
	connection *grpc.ClientConn
	node       spec.NodeClient
	pod        int
	target     string
}

// startPlugin starts the plugin in namespaces of its own, as in a container that has the host's
// PIDs, and makes the directory of a pod's volume, as the kubelet does.
func (b *bench) startPlugin(pod int) (*plugin, error) {
	dir := filepath.Join(b.root, "pods", uidOf(pod), "volumes/kubernetes.io~csi/pod-info")
	socket := filepath.Join(b.root, "csi.sock")
	log, err := os.Create(filepath.Join(b.root, "csi.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	p := &plugin{pod: pod, target: filepath.Join(dir, "mount")}
	p.process = inSession(exec.Command(b.settings.plugin, "serve", "--driver", b.driver.name, "--node-id", "bench",
		"--socket", socket, "--registration-dir", "", "--kubelet-dir", b.root, "--binary", b.driver.binary))
	p.process.SysProcAttr.Unshareflags = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	p.process.Stdout, p.process.Stderr = log, log
	if p.connection, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return nil, err
	}
	p.node = spec.NewNodeClient(p.connection)
	if err := p.process.Start(); err != nil {
		return nil, errors.Join(err, p.connection.Close())
	}
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	if _, err := p.node.NodeGetInfo(ctx, &spec.NodeGetInfoRequest{}, grpc.WaitForReady(true)); err != nil {
		said, _ := os.ReadFile(log.Name())
		return nil, errors.Join(fmt.Errorf("the plugin does not serve: %w; it logs %s", err, said), p.stop())
	}
	return p, nil
}

func (p *plugin) stop() error {
	return errors.Join(p.connection.Close(), p.process.Process.Signal(unix.SIGTERM), p.process.Wait())
}

// publish asks as the kubelet does for an inline volume, and tells how many milliseconds that took.
func (p *plugin) publish() (float64, error) {
	const prefix = "csi.storage.k8s.io/"
	began := time.Now()
	_, err := p.node.NodePublishVolume(context.Background(), &spec.NodePublishVolumeRequest{
		VolumeId: "csi-bench", TargetPath: p.target,
		VolumeCapability: &spec.VolumeCapability{
			AccessType: &spec.VolumeCapability_Mount{Mount: &spec.VolumeCapability_MountVolume{}},
			AccessMode: &spec.VolumeCapability_AccessMode{Mode: spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
		VolumeContext: map[string]string{
			prefix + "ephemeral": "true", prefix + "pod.uid": uidOf(p.pod), prefix + "pod.name": "bench",
			prefix + "pod.namespace": "default", prefix + "serviceAccount.name": "default",
		},
	})
	return milliseconds(time.Since(began)), err
}

func (p *plugin) unpublish() (float64, error) {
	began := time.Now()
	_, err := p.node.NodeUnpublishVolume(context.Background(), &spec.NodeUnpublishVolumeRequest{VolumeId: "csi-bench", TargetPath: p.target})
	return milliseconds(time.Since(began)), err
}

func (b *bench) doorSection() section {
	f := b.figures
	s := section{
		title: "Two doors", head: [4]string{"a volume", "by the CSI plugin", "by the call-out alone", "ratio"},
		text: "To publish and to unpublish, the CSI plugin enters the host's namespaces and executes `mount` and `unmount`.\n" +
			"Beside each request, which is timed from the kubelet's side, is that call-out alone. The kubelet publishes again\n" +
			"every minute. The plugin's memory is on top of the daemon's, and the pages of its binary count as private, too.",
	}
	for _, turn := range [][2]string{{"publish", "mount"}, {"publish again", "mount again"}, {"unpublish", "unmount"}} {
		s.rows = append(s.rows, compared(turn[0], f[doorName(turn[0])], f[doorName(turn[1])], "ms", ""))
	}
	s.rows = append(s.rows,
		row{what: fmt.Sprintf("private memory of the plugin, published %d times", publishes), ours: amount(f["memory/plugin/uss"], "KiB"), goal: "at most 12 MB"},
		row{what: "of that, anonymous: not of its binary", ours: amount(f["memory/plugin/anonymous"], "KiB")})
	return s
}
