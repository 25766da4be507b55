package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"example.com/pod-info-fuse/e2e/internal/steady"
	"example.com/pod-info-fuse/e2e/nodeplugin"
)

// A door is a way to the driver's volumes, with the times that reads, mounts and unmounts take.
// Only a soak records times.
type door struct{ reads, mounts, unmounts *steady.Times }

func doorOf(name string) door {
	return door{&steady.Times{Name: name + ", read"}, &steady.Times{Name: name + ", mount"}, &steady.Times{Name: name + ", unmount"}}
}

func (d door) times() []*steady.Times { return []*steady.Times{d.reads, d.mounts, d.unmounts} }

// published is the pod whose volume came by CSI, and is always there.
const published = "c51c51c5-0000-4000-8000-000000000001"

// startPlugin starts the second door, and publishes the volume.
func (t *trial) startPlugin(ctx context.Context) (err error) {
	if t.settings.csi == "" {
		return nil
	}
	t.plugin, err = nodeplugin.Start(ctx, t.settings.csi, nodeplugin.Driver{Name: t.driver.name, Binary: t.driver.binary, Root: t.driver.root})
	if err != nil {
		return err
	}
	return t.publish(published)
}

// publish publishes a volume, in a directory that the kubelet makes for that.
func (t *trial) publish(pod string) error {
	if err := os.MkdirAll(t.plugin.Volume(pod), 0o750); err != nil {
		return err
	}
	return t.second.mounts.Of(func() error { return t.plugin.Publish(pod) })
}

// unpublish removes the pod's directories, too: the plugin has removed what it made.
func (t *trial) unpublish(pod string) error {
	if err := t.second.unmounts.Of(func() error { return t.plugin.Unpublish(pod) }); err != nil {
		return err
	}
	return removePod(t.plugin.Volume(pod))
}

// csiLoad are the readers of the second door, if there is one.
func (t *trial) csiLoad() []*reader {
	if t.plugin == nil {
		return nil
	}
	return []*reader{
		{name: "the reader by CSI", operations: fileOperations(t.plugin.Target(published)), took: t.second.reads},
		{name: "the kubelet by CSI", operations: t.csiOperations(), apart: true},
	}
}

// csiOperations are a pod that comes and goes, as podOperations are. The kubelet asks again for a
// volume that is there.
func (t *trial) csiOperations() []operation {
	pods := 0
	return []operation{{"publish twice, read and unpublish a volume", func() error {
		pods++
		pod := fmt.Sprintf("00000000-0000-4000-8002-%012d", pods)
		if err := t.publish(pod); err != nil {
			return err
		}
		if err := t.plugin.Publish(pod); err != nil {
			return err
		}
		return errors.Join(readAll(t.plugin.Target(pod)), t.unpublish(pod))
	}}}
}

// checkPlugin closes the second door, when nobody reads any more.
func (t *trial) checkPlugin() {
	if t.plugin == nil {
		return
	}
	if err := errors.Join(t.unpublish(published), t.plugin.Stop()); err != nil {
		t.report.violation("CSI: %v", err)
	}
}
