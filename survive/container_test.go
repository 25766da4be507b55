package survive_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/internal/testnode"
)

// startInUserNamespace starts a process that is root in a user namespace of its own, and in
// others if so.
func startInUserNamespace(t *testing.T, more uintptr) *testnode.Process {
	t.Helper()
	command := exec.Command("sh", "-c", "echo ready; read end")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}}
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | more, UidMappings: ids, GidMappings: ids}
	return testnode.Started(t, command)
}

// container is a shell in a mount namespace of its own, where nothing is mounted but a root that is
// read-only, what a shell needs, a volume, and a file of a volume (a subPath). As with containerd
// 2.2 and runc 1.3, the volume is mounted rw, without the flags of the node's mount, and root has
// the default capabilities.
type container struct{ *testnode.Process }

// defaultCapabilities are those of containerd and CRI-O together.
const defaultCapabilities = "+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write"

func startContainer(t *testing.T, volume string) container {
	t.Helper()
	script := `mount -t tmpfs root "$1" && cd "$1" && mkdir volume usr proc node && touch subpath && mount --bind /usr usr &&
for d in /bin /lib*; do if [ -L "$d" ]; then cp -P "$d" .; else mkdir ".$d" && mount --bind "$d" ".$d"; fi || exit; done &&
mount --bind /proc proc && mount --bind "$2" volume && mount --bind "$2/pod.uid" subpath &&
mount -o remount,bind,rw,suid,dev,exec volume && mount -o remount,bind,rw,suid,dev,exec subpath &&
mount -o remount,ro "$1" && pivot_root . node && cd / && umount -l node &&
exec setpriv --bounding-set=-all,` + defaultCapabilities + ` sh -c "$3"`
	const serve = `echo ready &&
while read path; do line=; { read line < "/$path"; } 2>&-; echo "$line"; done`
	return container{testnode.Started(t, exec.Command("unshare", "--mount", "sh", "-c", script, "sh", t.TempDir(), volume, serve))}
}

// read returns the first line of a file, "" when it cannot be read.
func (c container) read(path string) string { return c.Does("%s", path) }

// hangInExecve starts a process in a mount namespace of its own, with what is mounted here, and
// returns when it hangs in execve(2). end has it go on, and ends it.
func hangInExecve(t *testing.T, f *slowclose.File) (pid int, end func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hangs := exec.Command("unshare", "--mount", self, slowclose.Verb, f.Path, "/bin/sleep", "sleep", "3600")
	if err := hangs.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		f.Answer()
		_ = hangs.Process.Kill()
		_ = hangs.Wait()
	})
	t.Cleanup(end)
	f.Waits(t)
	return hangs.Process.Pid, end
}

// statusOf is what /proc/PID/status says of a process.
func statusOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for line := range strings.Lines(testnode.Read(t, fmt.Sprintf("/proc/%d/status", pid))) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.Join(strings.Fields(value), " ")
	}
	return fields
}
