package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The size of pod is the length of the reader's PID. The PIDs of the programs below have
// three to five digits, they look at the same time as each other and as the readers, and many
// believe the size: they would read too little, or complain of a file that shrank.

// program is one that is given the path of pod, and what its output must be. What is not
// installed is left out.
type program struct {
	command []string
	output  func(output []byte, pid string) error
}

func equal(want func(pid string) string) func([]byte, string) error {
	return func(output []byte, pid string) error { return compare(string(output), want(pid), nil) }
}

// own is the content of the file, and its size.
func own(pid string) string  { return pid + "\n" }
func size(pid string) string { return strconv.Itoa(len(own(pid))) + "\n" }

// programs are for a file.
func programs(path string) []program {
	copyOut := `exec cp "$0" /proc/self/fd/1`
	all := []program{
		{[]string{"/proc/self/exe", "look", "--volume", filepath.Dir(path)}, equal(func(string) string { return "" })},
		{[]string{"stat", "-c", "%s", path}, equal(size)},
		{[]string{"sh", "-c", `exec wc -c <"$0"`, path}, equal(size)},
		{[]string{"tail", "-c", "3", path}, equal(func(pid string) string { return own(pid)[len(pid)-2:] })},
		{[]string{"tail", "-c", "100", path}, equal(own)},
		{[]string{"cat", path}, equal(own)},
		{[]string{"sh", "-c", copyOut, path}, equal(own)},
		{[]string{"tar", "-c", "-f", "-", "-C", filepath.Dir(path), filepath.Base(path)}, archive},
		{[]string{"python3", "-c", "import os, sys; f = open(sys.argv[1]); print(os.fstat(f.fileno()).st_size); print(f.read(), end='')", path},
			equal(func(pid string) string { return size(pid) + own(pid) })},
	}
	return slices.DeleteFunc(all, func(p program) bool {
		path, err := exec.LookPath(p.command[0])
		if err != nil {
			return true
		}
		path, err = filepath.EvalSymlinks(path)
		// BusyBox's tail seeks the end, and the kernel keeps a size for that which others change.
		return err == nil && filepath.Base(path) == "busybox" && p.command[0] == "tail"
	})
}

// archive is the output of tar: the size in the header, and the content.
func archive(output []byte, pid string) error {
	reader := tar.NewReader(bytes.NewReader(output))
	header, err := reader.Next()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(reader)
	return compare(fmt.Sprintf("%d: %s", header.Size, content), fmt.Sprintf("%d: %s", len(own(pid)), own(pid)), err)
}

// run runs the program as a process whose PID has so many digits, or one more.
func (p program) run(digits int) error {
	cmd := exec.Command(p.command[0], p.command[1:]...)
	var output, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &complaints
	if err := start(cmd, digits); err != nil {
		return err
	}
	err := cmd.Wait()
	if strings.Contains(complaints.String(), "file changed as we read it") { // so it did: the times of pod are those of now
		err = nil
	} else if err == nil && complaints.Len() > 0 {
		err = errors.New("it complains")
	}
	if err == nil {
		err = p.output(output.Bytes(), strconv.Itoa(cmd.Process.Pid))
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("process %d: %w: %s", cmd.Process.Pid, interrupted(err, complaints.String()), complaints.Bytes())
}

// interrupted is EINTR, if that is what another process says of its failure.
func interrupted(failure error, says string) error {
	if strings.Contains(strings.ToLower(says), unix.EINTR.Error()) {
		return unix.EINTR
	}
	return failure
}

// starting guards the PID that the kernel gives to the next process. A process that starts
// elsewhere may still get it.
var starting sync.Mutex

func start(cmd *exec.Cmd, digits int) error {
	starting.Lock()
	defer starting.Unlock()
	least := []int{3: 300, 4: 1000, 5: 10000}[digits]
	last := strconv.Itoa(least + rand.N(least*2))
	// Of this PID namespace (man 5 proc).
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(last), 0); err != nil {
		return err
	}
	return cmd.Start()
}

// sizeOperations run each of the programs.
func sizeOperations(volume string) (all []operation) {
	for _, p := range programs(filepath.Join(volume, "pod")) {
		all = append(all, operation{"run " + strings.Join(p.command, " "), func() error { return p.run(3 + rand.N(3)) }})
	}
	return all
}

// newVolumeOperations mount a volume, have several programs be the first to look, and unmount
// it.
func (d *driver) newVolumeOperations() []operation {
	volumes := 0
	return []operation{{"mount a volume, and look with several programs at once", func() error {
		volumes++
		volume := d.volumeOf(fmt.Sprintf("00000000-0000-4000-8001-%012d", volumes))
		if err := d.mount(volume); err != nil {
			return errors.Join(interrupted(err, err.Error()), d.unmount(volume))
		}
		var looking sync.WaitGroup
		all := programs(filepath.Join(volume, "pod"))
		failures := make([]error, 6)
		for i := range failures {
			looking.Go(func() { failures[i] = all[rand.N(len(all))].run(3 + i%3) })
		}
		looking.Wait()
		return errors.Join(append(failures, d.unmount(volume))...)
	}}}
}

// looks is how often a process looks.
const looks = 10

// runLook looks at the size of pod in all ways that there are.
func runLook(s settings) int {
	path := filepath.Join(s.volume, "pod")
	for range looks {
		if err := look(path, own(strconv.Itoa(os.Getpid()))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func look(path, content string) error {
	var before, opened, after unix.Stat_t
	if err := unix.Stat(path, &before); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	fd, err := open(path, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &opened); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	if err := expect(fd, content); err != nil {
		return err
	}
	hole, err := unix.Seek(fd, 0, unix.SEEK_HOLE)
	if err != nil {
		return fmt.Errorf("seek a hole: %w", err)
	}
	if err := unix.Fstat(fd, &after); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	want := int64(len(content))
	return compare(fmt.Sprint(before.Size, opened.Size, hole, after.Size), fmt.Sprint(want, want, want, want), nil)
}
