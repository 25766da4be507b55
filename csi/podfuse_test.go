package csi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// A plugin is any driver's: it is told what pods may ask it for.
func TestThePluginOfPodFuse(t *testing.T) {
	w := placeOf(t, podFuse, "serves", "wait", "default_permissions", "program")
	w.plugin.PolicyAttribute = "program"
	p := w.start()
	client, server := w.target(podUID, "data"), w.target(podUID, "data-server")
	isError(t, w.publish(client, with("facts", "pod.name")), codes.InvalidArgument, `"facts", which is not known; there is serves, wait, default_permissions, program`)
	isError(t, w.publish(server, with("serves", "data"), with("program", "s3fs")), codes.InvalidArgument, `option "program" is for the volume that is served`)
	isError(t, w.publish(client, with("wait", "long")), codes.InvalidArgument, "is not a time")
	w.isGone(client)
	for range 2 { // the kubelet repeats it
		w.mustPublish(server, with("serves", "data"))
		// What only an admission policy knows may be more than a process's argument can be.
		w.mustPublish(client, with("wait", "5s"), with("program", "s3fs"), with("bucket", strings.Repeat("b", 100<<10)))
	}
	for name, mode := range map[string]os.FileMode{"fuse": os.ModeNamedPipe, "socket": os.ModeSocket, "pod-fuse": 0} {
		if info, err := os.Lstat(filepath.Join(server, name)); err != nil || info.Mode().Type() != mode {
			t.Errorf("%s of the server volume: %v, %v", name, info, err)
		}
	}
	output, err := exec.Command(w.binary, "status").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "waiting, came back 0 times, 0 wait, volume data of pod shop/web-0") {
		t.Errorf("status: %v: %s", err, output)
	}
	w.mustUnpublish(client)
	w.mustUnpublish(server)
	w.isGone(client)
	w.isGone(server)
	if got := strings.Count(p.output.String(), " published "); got != 2 {
		t.Errorf("%d publications are logged: %s", got, p.output.String())
	}
}
