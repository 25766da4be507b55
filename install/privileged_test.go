package install

import (
	"os"
	"path/filepath"
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
