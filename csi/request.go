package csi

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/survive/volume"
)

// target is the directory that the kubelet wants a volume on:
// KUBELET/pods/UID/volumes/kubernetes.io~csi/NAME/mount. Another caller may have another name
// than mount.
type target struct {
	dir, uid, name string
}

// invalid is the error for a request that cannot be right.
func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// target checks what every request on a volume has. The target is what tells volumes apart: all
// pods that have a persistent volume have the same volume_id.
func (p *Plugin) target(volumeID, dir string) (t target, err error) {
	if volumeID == "" {
		return t, invalid("volume_id is missing")
	}
	rest, below := strings.CutPrefix(dir, filepath.Join(p.KubeletDir, "pods")+"/")
	parts := strings.Split(rest, "/")
	if !below || filepath.Clean(dir) != dir || len(parts) != 5 || !volume.IsUID(parts[0]) || parts[1] != "volumes" || parts[2] != volume.CSIPlugin {
		return t, invalid("target_path %.200q is not of the form %s/pods/UID/volumes/%s/NAME/mount; if that is not the kubelet's directory, say it with --kubelet-dir",
			dir, p.KubeletDir, volume.CSIPlugin)
	}
	return target{dir: dir, uid: parts[0], name: parts[3]}, nil
}

// check accepts what a volume can be, of a pod or of a claim. The access mode makes no difference,
// since each pod has its volume to itself, on any number of nodes. Neither does readonly: the
// kubelet makes the container's mount read-only. Secrets and mount options are not quoted: they may
// have passwords.
func check(r *csi.NodePublishVolumeRequest) error {
	switch mount := r.GetVolumeCapability().GetMount(); {
	case mount == nil:
		return invalid("volume_capability does not ask for a mounted volume, as volumeMode: Filesystem does")
	case mount.GetFsType() != "":
		return invalid("fsType %.40q is asked for; remove it from the volume", mount.GetFsType())
	case len(mount.GetMountFlags()) > 0:
		return invalid("mountOptions are given, and a volume has none; remove them from the persistent volume")
	case len(r.GetSecrets()) > 0:
		return invalid("a Secret is given, and a volume needs none; remove nodePublishSecretRef")
	}
	return nil
}

// What the kubelet adds to a volume's attributes begins with this (kubernetes v1.34,
// pkg/volume/csi/csi_util.go and csi_mounter.go).
const kubeletPrefix = "csi.storage.k8s.io/"

// kubeletOptions are the options of a FlexVolume that say the same as the kubelet's attributes.
var kubeletOptions = map[string]string{
	kubeletPrefix + "pod.uid":             flex.OptionPodUID,
	kubeletPrefix + "pod.name":            flex.OptionPodName,
	kubeletPrefix + "pod.namespace":       flex.OptionPodNamespace,
	kubeletPrefix + "serviceAccount.name": flex.OptionServiceAccount,
}

// options returns the options of mount for a volume: those of the kubelet, and those of the author
// that the driver knows. The kubelet overrides what the author of the pod, or of the persistent
// volume, has written (csi_mounter.go, mergeMap). Other attributes of the kubelet, which may be
// secrets, are left out, and so are those for an admission policy.
func (p *Plugin) options(t target, attributes map[string]string) (string, error) {
	options := map[string]string{flex.OptionVolumeName: t.name}
	_, forPolicy := attributes[p.PolicyAttribute]
	forPolicy = forPolicy && p.PolicyAttribute != ""
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		option := kubeletOptions[key]
		if slices.Contains(p.Attributes, key) {
			option = key
		}
		if option != "" {
			options[option] = attributes[key]
		} else if !strings.HasPrefix(key, kubeletPrefix) && !forPolicy {
			return "", invalid("volumeAttributes has %.100q, which is not known; there is %s", key, strings.Join(p.Attributes, ", "))
		}
	}
	switch ephemeral := attributes[kubeletPrefix+"ephemeral"]; {
	case ephemeral != "true" && ephemeral != "false":
		return "", invalid("%sephemeral is %.40q; the CSIDriver object needs podInfoOnMount: true", kubeletPrefix, ephemeral)
	case ephemeral == "false" && forPolicy:
		return "", invalid("volumeAttributes of a persistent volume has %q, which is for a pod's own volume: no admission policy looks behind a claim",
			p.PolicyAttribute)
	}
	switch uid, there := options[flex.OptionPodUID]; {
	case !there:
		return "", invalid("%spod.uid is missing; the CSIDriver object needs podInfoOnMount: true", kubeletPrefix)
	case uid != t.uid:
		return "", invalid("%spod.uid is %.40q, but target_path %q belongs to pod %s", kubeletPrefix, uid, t.dir, t.uid)
	}
	encoded, err := json.Marshal(options)
	return string(encoded), err
}

// String is for messages.
func (t target) String() string { return fmt.Sprintf("%q", t.dir) }
