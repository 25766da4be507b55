package survive_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/pod-info-fuse/internal/testnode"
)

// The kubelet has one call-out at a time for a volume, until it is restarted, and
// outside of its directories nothing keeps two pods apart. Whatever comes at once, the
// result is one that some order of the call-outs has.
func TestCallOutsAtOnceOnOneDirectory(t *testing.T) {
	d := testnode.Install(t)
	d.Mount() // there is a daemon
	const rounds = 60
	dir := filepath.Join(t.TempDir(), "volume")
	other := "9c5b0b2b-0f7e-4a0e-8f0a-5d8c6b7a9e1f"
	ours, theirs, away := []string{"mount", dir, testnode.GoodOptions}, []string{"mount", dir, testnode.Edit(testnode.PodUID, other)}, []string{"unmount", dir}
	for round := range rounds {
		if err := os.Mkdir(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		calls := [][][]string{{ours, theirs}, {ours, away}, {ours, theirs, away}, {ours, ours, away}, {theirs, ours, away, away}}[round%5]
		rand.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		var group sync.WaitGroup
		answers := make([]testnode.Answer, len(calls))
		for i, call := range calls {
			group.Go(func() { answers[i] = d.Call(call...) })
		}
		group.Wait()
		mounts, records := testnode.MountsOn(t, dir), len(d.Records())-1
		if mounts > 1 || mounts != records {
			t.Errorf("round %d, %v: %d mounts, %d records", round, answers, mounts, records)
		}
		if mounted := succeeded(answers); len(calls) == 2 && calls[0][0] == calls[1][0] && mounted != 1 {
			t.Errorf("round %d: %d pods have the directory: %+v", round, mounted, answers)
		}
		for _, a := range answers {
			if a.Status != "Success" && !strings.Contains(a.Message, "another pod") {
				t.Errorf("round %d: %+v", round, a)
			}
		}
		if mounts == 1 {
			if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" && got != other+"\n" {
				t.Errorf("round %d: pod.uid is %q", round, got)
			}
		}
		d.Must("unmount", dir)
		if left := testnode.MountsOn(t, dir); left != 0 || len(d.Records()) != 1 {
			t.Fatalf("round %d: unmount left %d mounts, records %q", round, left, d.Records())
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
}

func succeeded(answers []testnode.Answer) (count int) {
	for _, a := range answers {
		if a.Status == "Success" {
			count++
		}
	}
	return count
}

// The same where the mount is the node's first, and the unmount finds nothing to lock.
func TestTheFirstMountAndAnUnmountAtOnce(t *testing.T) {
	d := testnode.Install(t)
	for round := range 20 {
		dir := t.TempDir()
		var group sync.WaitGroup
		group.Go(func() { d.Must("mount", dir, testnode.GoodOptions) })
		time.Sleep(rand.N(40 * time.Millisecond))
		group.Go(func() { d.Must("unmount", dir) })
		group.Wait()
		if mounts, records := testnode.MountsOn(t, dir), len(d.Records()); mounts > 1 || mounts != records {
			t.Errorf("round %d: %d mounts, %d records", round, mounts, records)
		}
		d.Must("unmount", dir)
		if output, err := d.Command("stop").CombinedOutput(); err != nil {
			t.Fatalf("round %d: stop: %v: %s", round, err, output)
		}
	}
}

// An unmount may come while its volume is healed, in the kubelet's directory and in a container: no
// mount stays but the container's, which is healed, and no record when the pods are gone.
func TestHealingAndUnmountsAtOnce(t *testing.T) {
	d := testnode.Install(t)
	for round := range 6 {
		var dirs, pods []string
		for range 12 {
			dir, pod := mountInPod(d)
			dirs, pods = append(dirs, dir), append(pods, pod)
		}
		container := startContainer(t, dirs[0])
		d.KillPair()
		var group sync.WaitGroup
		group.Go(func() {
			command := d.Command([]string{"init", "restore"}[round%2])
			if output, err := command.CombinedOutput(); err != nil {
				t.Errorf("round %d: %v: %s", round, err, output)
			}
		})
		for _, dir := range dirs {
			group.Go(func() {
				time.Sleep(rand.N(150 * time.Millisecond))
				d.Must("unmount", dir)
			})
		}
		group.Wait()
		for _, dir := range dirs {
			if left := testnode.MountsOn(t, dir); left != 0 {
				t.Errorf("round %d: %d mounts on %s", round, left, dir)
			}
		}
		if got := container.read("volume/pod.uid"); got != testnode.PodUID {
			t.Errorf("round %d: in the container, pod.uid reads %q", round, got)
		}
		container.ends()
		for _, pod := range pods {
			d.PodGoes(pod)
		}
		d.Must("init")
		if left := d.Records(); len(left) != 0 {
			t.Errorf("round %d: records %q", round, left)
		}
	}
}
