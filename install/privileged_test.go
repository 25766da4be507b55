package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAKubeletOfAPodIsNone(t *testing.T) {
	rootOfAPod := "Uid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\n"
	for name, status := range map[string]string{
		"root in a pod":                rootOfAPod,
		"another user":                 "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t000001ffffffffff\n",
		"in a pod's user namespace":    "Uid:\t65536\t65536\t65536\t65536\nCapEff:\t000001ffffffffff\n",
		"in a user namespace of a pod": "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nNSpid:\t99\t7\n",
		"one of which nobody can say":  "",
	} {
		root := tree(t, with(configured, "proc/99/cmdline", cmdline("kubelet", "--volume-plugin-dir=/evil"), "proc/99/status", status))
		if dir, _, err := findPluginDir(root); err != nil || dir != "/file" {
			t.Errorf("%s: %q, %v", name, dir, err)
		}
	}
}

// A process that hangs with its memory's lock, as one that maps a file of a server that hangs,
// keeps who reads its command line waiting. Here it is a FIFO that nobody writes to.
func TestAPodsProcessKeepsNobodyWaiting(t *testing.T) {
	root := tree(t, with(configured, "proc/99/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nNSpid:\t99\t7\n"))
	fifo := filepath.Join(root, "proc/99/cmdline")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		dir, _, _ := findPluginDir(root)
		found <- dir
	}()
	select {
	case dir := <-found:
		if dir != "/file" {
			t.Errorf("it is %q", dir)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for a process of a pod")
		if file, err := os.OpenFile(fifo, os.O_WRONLY, 0); err == nil { // let it go
			file.Close()
		}
	}
}

// In its mount namespace, something would be executed as root.
func TestAPodsProcessIsNoneOfTheHosts(t *testing.T) {
	target := newTarget(t, nil)
	start := func(attr *syscall.SysProcAttr) int {
		command := exec.Command("/bin/sh", "-c", "read line", "--volume-plugin-dir="+target.PluginDir)
		command.Args[0] = "kubelet"
		command.SysProcAttr = attr
		pipe, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pipe.Close(); _ = command.Wait() })
		for line := fmt.Sprintf("/proc/%d/cmdline", command.Process.Pid); ; time.Sleep(time.Millisecond) {
			if has, _ := os.ReadFile(line); strings.Contains(string(has), target.PluginDir) { // it has been executed
				break
			}
		}
		return command.Process.Pid
	}
	start(&syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	start(&syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{Size: 1}}, GidMappings: []syscall.SysProcIDMap{{Size: 1}},
	})
	if pid := target.hostProcess(); pid != 1 {
		t.Errorf("process %d", pid)
	}
	if os.Geteuid() != 0 {
		return // a kubelet is root's
	}
	if pid, kubelet := start(nil), target.hostProcess(); kubelet != pid {
		t.Errorf("process %d, want the kubelet, %d", kubelet, pid)
	}
}
