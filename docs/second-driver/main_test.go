package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The binary is this test: with an argument of a call-out it is the driver.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	os.Exit(m.Run())
}

func call(t *testing.T, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command(self, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return strings.TrimSpace(string(output))
}

func TestTheSecondDriverWorks(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"init"}, `{"status":"Success","capabilities":{"attach":false,"selinuxRelabel":true,"supportsMetrics":false,"fsGroup":true,"requiresFSResize":false}}`},
		{[]string{"mount", dir, `{"kubernetes.io/readwrite":"rw"}`}, `{"status":"Failure","message":"option \"mebibytes\" is missing or 0"}`},
		{[]string{"mount", dir, `{"mebibytes":"many"}`}, `{"status":"Failure","message":"option \"mebibytes\" is not a number of mebibytes"}`},
		{[]string{"mount", dir, `{"mebibytes":"2"}`}, `{"status":"Success"}`},
		{[]string{"attach", "{}", "node"}, `{"status":"Not supported","message":"call-out \"attach\" is not implemented by this driver"}`},
	} {
		if got := call(t, row.args...); got != row.want {
			t.Errorf("%q: %s, want %s", row.args, got, row.want)
		}
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil || stat.Type != unix.TMPFS_MAGIC || stat.Blocks*uint64(stat.Bsize) != 2<<20 {
		t.Errorf("%s: %+v, %v; want a tmpfs of 2 MiB", dir, stat, err)
	}
	for range 2 {
		if got := call(t, "unmount", dir); got != `{"status":"Success"}` {
			t.Errorf("unmount: %s", got)
		}
	}
}

// The page shows this program, not one that it once was.
func TestThePageShowsTheProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "second-driver.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, append([]byte("```go\n"), append(program, "```\n"...)...)) {
		t.Error("docs/second-driver.md does not have main.go in it; copy it there")
	}
}
