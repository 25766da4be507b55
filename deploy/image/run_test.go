package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os/exec"
	"runtime"
	"testing"
)

// emulators are by Debian's names; CI is on one of these machines.
var emulators = map[string]string{"linux/amd64": "qemu-x86_64-static", "linux/arm64": "qemu-aarch64-static"}

var machines = map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}

// Each architecture's binary runs: on this machine, or emulated.
func TestBinariesRun(t *testing.T) {
	images := platformImages(t)
	if len(images) != len(machines) {
		t.Errorf("the image is for %d platforms, want %d", len(images), len(machines))
	}
	for platform, machine := range machines {
		t.Run(platform, func(t *testing.T) {
			image, found := images[platform]
			if !found {
				t.Fatal("the image is not for this platform")
			}
			for i, binary := range unpack(t, image) {
				assertStatic(t, binary, machine)
				command := []string{binary}
				if platform != runtime.GOOS+"/"+runtime.GOARCH {
					command = []string{emulators[platform], binary}
				}
				if got, want := output(t, append(command, "version")), programs[i][1:]+" "+version+"\n"; got != want {
					t.Errorf("version prints %q, want %q", got, want)
				}
				if programs[i] != "/pod-info-fuse-csi" {
					assertInit(t, output(t, append(command, "init")))
				}
			}
		})
	}
}

// assertInit requires what the kubelet does: one JSON object, and success.
func assertInit(t *testing.T, answer string) {
	t.Helper()
	var reply struct {
		Status       string
		Capabilities map[string]bool
	}
	if err := json.Unmarshal([]byte(answer), &reply); err != nil {
		t.Fatalf("init prints %q: %v", answer, err)
	}
	if reply.Status != "Success" || len(reply.Capabilities) == 0 {
		t.Errorf("init prints %s", answer)
	}
}

// output runs a command as the kubelet does: what it prints, and where, is one.
func output(t *testing.T, command []string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v: %s", command, err, out.String())
	}
	return out.String()
}
