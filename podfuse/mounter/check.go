package mounter

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/later"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// What an order says is compared here with root's records and with what the kernel says of a
// process. The process is held by a descriptor: what /proc says of its number holds if it is
// alive afterwards.

// process is one in a pod.
type process struct {
	*proc.Process
	uid, gid uint32 // of a socket's peer
}

// soPeerPIDFD returns a socket's peer (include/uapi/asm-generic/socket.h; Linux 6.5).
const soPeerPIDFD = 77

// peerPIDFD asks for that. In a test, the kernel does not know it.
var peerPIDFD = func(fd int) (int, error) { return unix.GetsockoptInt(fd, unix.SOL_SOCKET, soPeerPIDFD) }

// peerOf returns the process that connected a socket, which the pair has accepted at a time.
func peerOf(socket *packet.Socket, accepted time.Duration) (p *process, err error) {
	credentials, err := socket.Peer()
	if err != nil {
		return nil, fmt.Errorf("find out who asks: %w", err)
	}
	number, byNumber := -1, false
	controlErr := socket.Control(func(fd int) {
		// Any other error is that the process has ended: another one may have its number.
		if number, err = peerPIDFD(fd); errors.Is(err, unix.ENOPROTOOPT) {
			byNumber = true
			number, err = unix.PidfdOpen(int(credentials.Pid), 0)
		}
	})
	if err = errors.Join(controlErr, err); err != nil {
		return nil, fmt.Errorf("find out who asks: %w", err)
	}
	p = &process{proc.Held(int(credentials.Pid), number), credentials.Uid, credentials.Gid}
	if p.PID <= 0 {
		p.Close()
		return nil, errors.New("who asks is in no PID namespace below this one")
	}
	if byNumber {
		if err := p.checkBegan(accepted); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

// checkBegan refuses a process that began after the connection of who asks was accepted: it has got
// the number of one that has ended. What the kernel tells is rounded down.
func (p *process) checkBegan(accepted time.Duration) error {
	text, err := startOf(p.PID)
	if err != nil {
		return err
	}
	const tick = time.Second / 100 // include/asm-generic/param.h, USER_HZ
	ticks, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	if time.Duration(ticks)*tick > accepted {
		return fmt.Errorf("the process that asks has ended, and process %d, which began later, has its number", p.PID)
	}
	return p.Alive()
}

// openProcess opens the process that a thread belongs to.
func openProcess(thread int) (*process, error) {
	if thread <= 0 {
		return nil, fmt.Errorf("%d is no process", thread)
	}
	status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", thread))
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(status["Tgid"])
	if err != nil {
		return nil, fmt.Errorf("thread %d is of no process", thread)
	}
	p, err := proc.Open(pid)
	if err != nil {
		return nil, err
	}
	return &process{Process: p}, nil
}

func (p *process) path(name string) string { return fmt.Sprintf("/proc/%d/%s", p.PID, name) }

// mounts lists what the process has mounted below its root directory. A mountinfo that the pair
// does not read, because it is too long, is not read here.
func (p *process) mounts() ([]*mountinfo.Info, error) {
	return mount.Namespace{PID: p.PID}.All(wire.MostMounts)
}

// tables bounds how many functions have parsed tables of mounts in memory: that of the host is
// long, and hundreds of programs may ask at the same time. Pods take turns. A function that has a
// turn waits for no lock, no program and no second turn.
var tables = later.Queue[string]{AtOnce: 4}

// checkPod refuses a process that is in another pod. A kubelet with cgroupsPerQOS=false puts
// pods into no cgroup of their own: then the mounts alone decide.
func (p *process) checkPod(uid string) error {
	pods, err := podsOf(p.PID)
	if err != nil {
		return err
	}
	for _, found := range pods {
		if found != podfuse.PlainUID(uid) {
			return fmt.Errorf("process %d is in pod %s, and the volume is of pod %s", p.PID, found, uid)
		}
	}
	return nil
}

// checkServer returns what a request by the socket of a server volume is for, if the process
// that asks has that volume.
func (c Config) checkServer(server volume.ID, p *process) (record volume.Record, client volume.ID, err error) {
	record, err = c.ServerVolumes().Get(server)
	if err != nil {
		return record, 0, fmt.Errorf("there is no such server volume: %w", err)
	}
	if client, err = podfuse.Client(record); err != nil {
		return record, 0, err
	}
	tmpfs, err := mount.Open(c.Servers())
	if err != nil {
		return record, 0, err
	}
	defer tmpfs.Close()
	defer tables.Take(podfuse.PlainUID(record.PodUID))()
	mounts, err := p.mounts()
	if err != nil {
		return record, 0, err
	}
	own, err := mountinfo.GetMounts(nil)
	if err != nil {
		return record, 0, err
	}
	isFIFO := func(info *mountinfo.Info) bool {
		return info.FSType == "tmpfs" && info.Source == wire.Source && deviceOf(info) == tmpfs.Device() && info.Root == "/"+server.String()
	}
	// The FIFO is mounted in the directory that is the volume's, in containers as well. What that
	// is on tells them apart.
	on := func(info *mountinfo.Info, byID map[int]*mountinfo.Info) string {
		if directory := byID[info.Parent]; directory != nil {
			return placeOf(directory, byID)
		}
		return ""
	}
	has, host, byID := false, hostPlaces(own, record.Dir, isFIFO, on), identified(mounts)
	for _, info := range mounts {
		if !isFIFO(info) {
			continue
		}
		if host[on(info, byID)] { // as the pair has it
			return record, 0, fmt.Errorf("process %d is in no container: it has the server volume on %s", p.PID, info.Mountpoint)
		}
		has = true
	}
	if !has {
		return record, 0, fmt.Errorf("process %d does not have server volume %s", p.PID, server)
	}
	if err := p.checkPod(record.PodUID); err != nil {
		return record, 0, err
	}
	return record, client, p.Alive()
}

// standIn is one in a process's mount namespace, and what is on top of it.
type standIn struct {
	Path     string `json:"path"`
	Sub      string `json:"sub,omitempty"` // the directory below the volume's that it shows
	ReadOnly bool   `json:"readOnly,omitempty"`
	Above    int    `json:"above,omitempty"` // how many mounts of programs are on top
	Top      uint64 `json:"top"`             // the topmost mount's device
	Device   uint64 `json:"device"`          // its own
	// Below are the directories in it that the container has mounts of its own on: other volumes.
	Below []string `json:"below,omitempty"`
}

// standIns finds those of a client volume, which the process's namespace must have inside a
// container.
func (c Config) standIns(record volume.Record, p *process) ([]standIn, error) {
	// Nearly all processes do not have the volume. To see that, no table is parsed.
	text, err := proc.Read(p.path("mountinfo"), nil, wire.MostMounts)
	if err == nil && !bytes.Contains(text, []byte(record.ID().String())) {
		return nil, fmt.Errorf("process %d does not have volume %s", p.PID, record.ID())
	}
	if err := p.checkPod(record.PodUID); err != nil {
		return nil, err
	}
	defer tables.Take(podfuse.PlainUID(record.PodUID))()
	mounts, err := p.mounts()
	if err != nil {
		return nil, err
	}
	ours, err := c.nodeDevices()
	if err != nil {
		return nil, err
	}
	own, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, err
	}
	found, err := findStandIns(mounts, own, ours, record, c.Type, c.Source)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("process %d does not have volume %s", p.PID, record.ID())
	}
	if err != nil {
		return nil, err
	}
	return found, p.Alive()
}

// findStandIns finds them in a namespace's mounts. own are the host's, and ours the devices of
// stand-ins.
func findStandIns(mounts, own []*mountinfo.Info, ours map[uint64]bool, record volume.Record, fsType, source string) (found []standIn, err error) {
	on := map[int]*mountinfo.Info{} // by what they cover
	byID := identified(mounts)
	for _, info := range mounts {
		on[info.Parent] = pick(on[info.Parent], info)
	}
	shared := sharedIn(own)
	host := hostPlaces(own, record.Dir, func(info *mountinfo.Info) bool {
		return ours[deviceOf(info)] && strings.TrimSuffix(info.Root, "//deleted") == "/"+record.ID().String()
	}, placeOf)
	for _, info := range mounts {
		root := strings.TrimSuffix(info.Root, "//deleted") // fs/proc_namespace.c, show_mountinfo
		sub, is := cutPath(root, "/"+record.ID().String())
		if !is || info.FSType != fsType || info.Source != source || !ours[deviceOf(info)] {
			continue
		}
		if host[placeOf(info, byID)] {
			return nil, fmt.Errorf("the mount namespace is no container's: it has the volume on %s", info.Mountpoint)
		}
		if shared[peerGroup(info)] {
			return nil, fmt.Errorf("what is mounted on %s in the container would appear on the host; remove mountPropagation: Bidirectional from the container", info.Mountpoint)
		}
		if covered(info, on, byID) {
			continue // what covers it may have a copy, see cloneWithBelow
		}
		s := standIn{Path: info.Mountpoint, Sub: sub, ReadOnly: slices.Contains(strings.Split(info.Options, ","), "ro"), Top: deviceOf(info), Device: deviceOf(info)}
		for _, other := range mounts {
			if rest, is := cutPath(other.Mountpoint, info.Mountpoint); is && rest != "" && other.Parent == info.ID && !slices.Contains(s.Below, rest) {
				s.Below = append(s.Below, rest)
			}
		}
		for top := on[info.ID]; top != nil && top.Mountpoint == info.Mountpoint; top = on[top.ID] {
			if top.FSType != "fuse" && !strings.HasPrefix(top.FSType, "fuse.") {
				return nil, fmt.Errorf("a file system of type %s covers the volume on %s", top.FSType, info.Mountpoint)
			}
			s.Above, s.Top = s.Above+1, deviceOf(top)
		}
		if len(found) > mostStandIns { // its caller refuses it
			return found, nil
		}
		// Of stand-ins on top of each other, the upper one counts.
		if !slices.ContainsFunc(found, func(other standIn) bool { return other.Path == s.Path }) {
			found = append(found, s)
		}
	}
	return found, nil
}

// covered tells whether a mount is somewhere below one that something else covers as a whole.
func covered(info *mountinfo.Info, on, byID map[int]*mountinfo.Info) bool {
	for range byID { // what is read while mounts move may have no end
		parent := byID[info.Parent]
		if parent == nil || parent == info {
			return false
		}
		if top := on[parent.ID]; top != info && top.Mountpoint == parent.Mountpoint {
			return true
		}
		info = parent
	}
	return false
}

// pick prefers the mount that covers its parent as a whole to those somewhere inside it.
func pick(a, b *mountinfo.Info) *mountinfo.Info {
	if a == nil || len(b.Mountpoint) < len(a.Mountpoint) {
		return b
	}
	return a
}

// mountAt is the mount that a path without links leads to, nil if the table does not have the root
// directory's. It goes from mount to mount, as the kernel does: of several on one directory, the
// order of the table does not tell which one is on top.
func mountAt(path string, mounts []*mountinfo.Info) (at *mountinfo.Info) {
	known := map[int]bool{}
	for _, info := range mounts {
		known[info.ID] = true
	}
	for range mounts { // what is read while mounts move may have no end
		var next *mountinfo.Info
		for _, info := range mounts {
			isRoot := at == nil && info.Mountpoint == "/" && (!known[info.Parent] || info.Parent == info.ID)
			isOn := at != nil && info.Parent == at.ID && info != at
			if _, below := cutPath(path, strings.TrimSuffix(info.Mountpoint, "/")); below && (isRoot || isOn) {
				next = pick(next, info) // the first that the path meets
			}
		}
		if next == nil {
			return at
		}
		at = next
	}
	return at
}

// serverAt is the device of the server volume whose directory for a program's own mount a path is,
// 0 if it is none. The process is of a pod.
func (p *process) serverAt(path, pod string) uint64 {
	defer tables.Take(pod)()
	mounts, err := p.mounts()
	if err != nil {
		return 0
	}
	at := mountAt(path, mounts)
	if at == nil || at.FSType != "tmpfs" || at.Source != wire.Source {
		return 0
	}
	if rest, _ := cutPath(path, at.Mountpoint); filepath.Join(at.Root, rest) != filepath.Join("/", wire.Shared, wire.Mount) {
		return 0
	}
	return deviceOf(at)
}

// placeOf is the directory that a mount is on, or the lowest of several on top of each other: the
// device of its file system, and its path in that. It is the same in each mount namespace, and
// whatever path leads there: the kubelet's may have links in it, and node agents have its
// directories below paths of their own. "" if the table does not tell.
func placeOf(info *mountinfo.Info, byID map[int]*mountinfo.Info) string {
	for range byID { // what is read while mounts move may have no end
		parent := byID[info.Parent]
		if parent == nil || parent == info {
			return ""
		}
		if parent.Mountpoint != info.Mountpoint {
			return placeIn(parent, info.Mountpoint)
		}
		info = parent
	}
	return ""
}

// placeIn is that of a path that leads to a mount.
func placeIn(info *mountinfo.Info, path string) string {
	rest, _ := cutPath(path, strings.TrimSuffix(info.Mountpoint, "/"))
	return fmt.Sprintf("%d:%d %s", info.Major, info.Minor, filepath.Join(info.Root, rest))
}

// hostPlaces are the directories on which the host has a volume mounted, of our own mounts: those
// of mounts that are the volume's, which on tells, and the kubelet's by its path, should it have
// got another mount namespace since.
func hostPlaces(own []*mountinfo.Info, dir string, is func(*mountinfo.Info) bool, on func(*mountinfo.Info, map[int]*mountinfo.Info) string) map[string]bool {
	places, byID := map[string]bool{}, identified(own)
	for _, info := range own {
		if is(info) {
			places[on(info, byID)] = true
		}
	}
	if at := mountAt(dir, own); at != nil && at.Mountpoint == dir {
		places[placeOf(at, byID)] = true
	} else if at != nil {
		places[placeIn(at, dir)] = true
	}
	delete(places, "")
	return places
}

func identified(mounts []*mountinfo.Info) map[int]*mountinfo.Info {
	byID := make(map[int]*mountinfo.Info, len(mounts))
	for _, info := range mounts {
		byID[info.ID] = info
	}
	return byID
}

// cutPath removes a directory from the beginning of a path.
func cutPath(path, dir string) (rest string, is bool) {
	rest, is = strings.CutPrefix(path, dir)
	if !is || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// peerGroup is that of a shared mount, "" for one that is not shared.
func peerGroup(info *mountinfo.Info) string {
	for field := range strings.FieldsSeq(info.Optional) {
		if group, shared := strings.CutPrefix(field, "shared:"); shared {
			return group
		}
	}
	return ""
}

// sharedIn lists the peer groups of mounts: what is mounted on their peers appears in them, too.
func sharedIn(mounts []*mountinfo.Info) map[string]bool {
	groups := map[string]bool{}
	for _, info := range mounts {
		if group := peerGroup(info); group != "" {
			groups[group] = true
		}
	}
	return groups
}

// nodeDevices are those that stand-ins are of: that of the node mount, and those of former ones,
// which package survive keeps in RUN/dead until nothing of them is left.
func (c Config) nodeDevices() (map[uint64]bool, error) {
	paths, _ := filepath.Glob(filepath.Join(c.RunDir, "dead", "*"))
	devices := map[uint64]bool{}
	for _, path := range append(paths, c.FS()) {
		point, err := mount.Open(path)
		if proc.IsShort(err) {
			return nil, err
		} else if err != nil {
			continue
		}
		if point.Mounted() {
			devices[point.Device()] = true
		}
		point.Close()
	}
	if len(devices) == 0 {
		return nil, fmt.Errorf("%w on %s", errNoNodeMount, c.FS())
	}
	return devices, nil
}

var errNoNodeMount = errors.New("nothing is mounted")

func deviceOf(info *mountinfo.Info) uint64 { return unix.Mkdev(uint32(info.Major), uint32(info.Minor)) }
