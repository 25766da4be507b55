package keep

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/packet/packettest"
)

// stand starts a spare, and returns the owner's end of its link, and what becomes of it.
func stand(t *testing.T) (owner *os.File, became func() (*Set, error)) {
	t.Helper()
	owner, theirs, err := packet.Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { owner.Close() })
	var set *Set
	done := make(chan error)
	go func() {
		defer theirs.Close()
		var err error
		set, err = Stand(theirs)
		done <- err
	}()
	return owner, func() (*Set, error) {
		err := <-done
		return set, err
	}
}

func file(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestASpareHasAllThatItsOwnerHad(t *testing.T) {
	owner := New()
	defer owner.Close()
	owner.Put("before", "one", file(t, "first"))
	owner.Put("gone", "one", file(t, "another"))
	link, became := stand(t)
	if err := owner.Feed(link, func() {}); err != nil {
		t.Fatal(err)
	}
	owner.Put("after", "two", nil)
	owner.Note("before", "three")
	owner.Drop("gone")
	link.Close()
	owner.Forget() // as its death does
	spare, err := became()
	if err != nil {
		t.Fatal(err)
	}
	defer spare.Close()
	if names := spare.Names(""); !slices.Equal(names, []string{"after", "before"}) {
		t.Errorf("%q", names)
	}
	var meta string
	kept, _ := spare.Get("before", &meta)
	text := make([]byte, 10)
	if n, _ := kept.ReadAt(text, 0); string(text[:n]) != "first" || meta != "three" {
		t.Errorf("%q with %q", text, meta)
	}
}

// An owner learns that its spare has read all, and loses nothing when it dies before it has read
// the answer.
func TestASpareAnswers(t *testing.T) {
	for _, reads := range []bool{true, false} {
		owner := New()
		owner.Put("before", "one", nil)
		link, became := stand(t)
		if err := owner.Feed(link, func() {}); err != nil {
			t.Fatal(err)
		}
		answered := owner.Ask()
		if reads {
			if err := answered(time.Minute); err != nil {
				t.Error(err)
			}
		} else {
			socket, err := packet.New(link)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := socket.Peek(time.Time{}); err != nil { // it has come
				t.Fatal(err)
			}
			socket.Close()
		}
		owner.Put("after", "two", nil)
		link.Close()
		owner.Forget()
		spare, err := became()
		if err != nil {
			t.Fatal(err)
		}
		if names := spare.Names(""); !slices.Equal(names, []string{"after", "before"}) {
			t.Errorf("the answer was read: %v; the spare has %q", reads, names)
		}
	}
}

// Neither an owner nor a spare loses a thread to each file that a pod has left in a socket.
func TestFilesThatAPodLeavesTakeNoThreads(t *testing.T) {
	threads := func() int {
		all, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	owner := New()
	defer owner.Close()
	link, became := stand(t)
	if err := owner.Feed(link, func() {}); err != nil {
		t.Fatal(err)
	}
	before := threads()
	const many = 20
	for range many {
		pods, ours, err := packet.Pair()
		if err != nil {
			t.Fatal(err)
		}
		socket, err := packet.New(pods)
		if err != nil {
			t.Fatal(err)
		}
		left := packettest.Lingering(t)
		if err := socket.Send(packet.NoLimit, "request", left); err != nil {
			t.Fatal(err)
		}
		left.Close()
		pods.Close()
		socket.Close()
		owner.Put("order", "meta", ours)
		owner.Drop("order")
	}
	answered := owner.Ask()
	if err := answered(time.Minute); err != nil {
		t.Error(err)
	}
	until := time.Now().Add(10 * time.Second)
	for threads() >= before+many/2 && time.Now().Before(until) {
		time.Sleep(10 * time.Millisecond)
	}
	if got := threads(); got >= before+many/2 {
		t.Errorf("%d threads, and there were %d", got, before)
	}
	link.Close()
	owner.Forget()
	_, _ = became()
}

// Its owner may live: a part of what it has is of no use to anybody.
func TestASpareThatWasGivenAPartLeaves(t *testing.T) {
	link, became := stand(t)
	socket, err := packet.New(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := socket.Send(sendTimeout, message{put, "name", encode("meta")}); err != nil {
		t.Fatal(err)
	}
	socket.Close()
	link.Close()
	if _, err := became(); !errors.Is(err, ErrPart) {
		t.Error(err)
	}
}
