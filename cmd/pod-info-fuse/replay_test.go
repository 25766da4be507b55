package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// What a real kubelet sent, captured by the end-to-end suite, with its root
// directory written as /var/lib/kubelet.
const captures = "../../testdata/kubelet-v1.34/*.json"

func TestArgumentsOfARealKubelet(t *testing.T) {
	paths, err := filepath.Glob(captures)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var capture struct{ Argv []string }
			if err := json.Unmarshal([]byte(testnode.Read(t, path)), &capture); err != nil {
				t.Fatal(err)
			}
			root := t.TempDir()
			args := make([]string, len(capture.Argv))
			for i, arg := range capture.Argv {
				args[i] = strings.ReplaceAll(arg, "/var/lib/kubelet", root)
			}
			calls[args[0]]++
			replay(t, testnode.Install(t), args)
		})
	}
	for _, name := range []string{"init", "mount", "unmount"} {
		if calls[name] == 0 {
			t.Errorf("no capture of %s in %s", name, captures)
		}
	}
}

// replay plays the kubelet around one call-out.
func replay(t *testing.T, d testnode.Driver, args []string) {
	switch args[0] {
	case "init":
		d.Must(args...)
	case "unmount":
		dir := args[1]
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		uid := strings.Split(dir[strings.Index(dir, "/pods/"):], "/")[2]
		d.Must("mount", dir, testnode.Edit(testnode.PodUID, uid))
		d.Must(args...)
		testnode.Gone(t, d, dir)
	case "mount":
		dir := args[1]
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(args[2], `"colour"`) {
			if a := d.Call(args...); a.Status != "Failure" || !strings.Contains(a.Message, `"colour"`) {
				t.Errorf("%+v", a)
			}
			testnode.LeftNothing(t, d, dir)
			return
		}
		d.Must(args...)
		if got := testnode.Read(t, dir, "pod.uid"); !strings.Contains(args[2], `"kubernetes.io/pod.uid":"`+strings.TrimSpace(got)+`"`) {
			t.Errorf("pod.uid is %q", got)
		}
		d.Must("unmount", dir)
		testnode.Gone(t, d, dir)
	default:
		t.Errorf("nobody knows how to replay %q", args)
	}
}
