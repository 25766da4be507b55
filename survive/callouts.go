package survive

import (
	"fmt"
	"strings"
	"time"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/survive/volume"
)

// CallOuts are the call-outs of the driver. It implements [flex.Driver]. Package command executes
// them in the namespaces of process 1, in which the kubelet need not be.
type CallOuts struct {
	Node Node
	// ConfigError says why the configuration could not be read. It fails mount; init and
	// unmount go on without a configuration.
	ConfigError error
	// Check reads the options of a mount that are the driver's own, those of
	// [flex.Options.Own], into the record's attributes. The pod's author wrote them: it must
	// refuse those that it does not know, and nil refuses all. Its error fails mount, as one of the
	// caller's: see [flex.Invalid].
	Check func(options flex.Options, record *volume.Record) error
	// Repeated is told that mount has found the volume mounted: a CSI kubelet repeats itself
	// about every minute, for each volume. nil: nobody is told.
	Repeated func()
	// Ends has unmount remove the record, also where a container may still have the volume mounted;
	// see [CallOuts.Unmount].
	Ends bool
}

var _ flex.Driver = CallOuts{}

// Init answers that volumes need nothing of the kubelet but mount and unmount.
// In particular, no relabelling by SELinux and no change of ownership for
// fsGroup: the daemon would refuse both.
//
// Where the driver has volumes, Init also maintains them: the kubelet calls it when it
// starts, and when the driver was replaced. It never fails, because the
// kube-controller-manager calls it as well, in a container that has neither the node's /run
// nor /dev/fuse.
func (c CallOuts) Init() (flex.Capabilities, error) {
	if err := c.Node.begin().init(); err != nil {
		c.Node.Log("init: %v", err)
	}
	// SELinuxRelabel stays false: to relabel the volume fails on FUSE. The kubelet relabels a CSI
	// volume only if its mount shows seclabel (kubernetes v1.34, pkg/volume/csi/csi_mounter.go),
	// which a mount with a label of its own does not.
	return flex.Capabilities{}, nil
}

// Mount makes the volume appear in dir. When it fails, it leaves neither a
// mount nor a record; but a directory that was mounted, dead or alive, is as it was, unless
// the kernel refuses the very last bind mount, in the place of a dead one. A record that was
// there of a volume that was unmounted stays, as a container may still have that.
func (c CallOuts) Mount(dir string, options flex.Options) error {
	record, err := c.Record(dir, options)
	if err != nil {
		return err
	}
	mounted, err := c.Node.begin().mountVolume(record)
	if err == nil && !mounted && c.Repeated != nil {
		c.Repeated()
	}
	return err
}

// Unmount removes the volume from dir: all its mounts, dead or alive or in use. Its record stays
// for as long as the kubelet has the directory of its pod, since a container may still have the
// volume mounted; mount, in the same directory, takes it over. Outside of a kubelet's directories,
// the record ends with the mount. A directory that has no volume is a success, because the kubelet
// repeats calls whose end it does not know. It never asks the daemon, and waits for no
// call-out but one for the same volume. So it leaves healing other volumes to init and mount.
func (c CallOuts) Unmount(dir string) error {
	dir, err := c.Node.cleanDir(dir)
	if err != nil {
		return flex.Invalid(err)
	}
	n := c.Node.begin()
	defer n.forgetLingering(lingeringMost)
	return n.unmountVolume(dir, !c.Ends)
}

// Record makes a volume's record of the arguments of mount, and writes it nowhere. It trusts or
// refuses the options: the pod's author wrote some of them, and the kubelet merges those last
// (kubernetes v1.34, pkg/volume/flexvolume/driver-call.go).
func (c CallOuts) Record(dir string, options flex.Options) (volume.Record, error) {
	if c.ConfigError != nil {
		return volume.Record{}, c.ConfigError
	}
	dir, err := c.Node.cleanDir(dir)
	if err != nil {
		return volume.Record{}, flex.Invalid(err)
	}
	if c.Check == nil {
		for key := range options.Own() {
			return volume.Record{}, flex.Invalid(fmt.Errorf("option %q is not known; remove it from the pod's volume", key))
		}
	}
	uid, present := options.Lookup(flex.OptionPodUID)
	record := volume.Record{
		Dir:            dir,
		PodUID:         uid,
		PodName:        options.Get(flex.OptionPodName),
		PodNamespace:   options.Get(flex.OptionPodNamespace),
		ServiceAccount: options.Get(flex.OptionServiceAccount),
		Name:           options.Get(flex.OptionVolumeName),
		Mounted:        time.Now().UTC().Round(0),
	}
	if c.Check != nil {
		if err := c.Check(options, &record); err != nil {
			return volume.Record{}, flex.Invalid(err)
		}
	}
	// An option that is not known comes first: it may be a look-alike of this one.
	if !present {
		return volume.Record{}, flex.Invalid(fmt.Errorf("option %q is missing; the kubelet sets it", flex.OptionPodUID))
	}
	if err := record.Check(); err != nil {
		return volume.Record{}, flex.Invalid(fmt.Errorf("mount: %w", err))
	}
	if _, rest, ok := volume.SplitDir(dir); ok && !strings.HasPrefix(rest, uid+"/") {
		owner, _, _ := strings.Cut(rest, "/")
		return volume.Record{}, flex.Invalid(fmt.Errorf("option %q is %s, but directory %q belongs to pod %.40q", flex.OptionPodUID, uid, dir, owner))
	}
	return record, nil
}
