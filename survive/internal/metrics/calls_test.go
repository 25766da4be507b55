package metrics

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// recordIn makes a process of this program record call-outs in a file.
const recordIn = "TEST_RECORD_IN"

// recorded is how many each process records.
const recorded = 1000

func TestMain(m *testing.M) {
	if path := os.Getenv(recordIn); path != "" {
		for i := range recorded {
			Record(path, callOuts[i%2], outcomes[i%4/2], time.Duration(i)*time.Millisecond)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProcessesThatRecordAtTheSameTimeLoseNothing(t *testing.T) {
	path := newCalls(t)
	const processes = 8
	var all []*exec.Cmd
	for range processes {
		process := exec.Command("/proc/self/exe")
		process.Env = append(os.Environ(), recordIn+"="+path)
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, process)
	}
	for _, process := range all {
		if err := process.Wait(); err != nil {
			t.Error(err)
		}
	}
	c, err := ReadCalls(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range callOuts {
		want := uint64(0)
		if i < 2 {
			want = processes * recorded / 2
		}
		durations := uint64(0)
		for _, n := range c[i].Classes {
			durations += n
		}
		if c[i].Outcomes[0] != want/2 || c[i].Outcomes[1] != want/2 || c[i].Outcomes[2] != 0 || durations != want {
			t.Errorf("%s: %+v, want %d", name, c[i], want)
		}
	}
	// 0, 2, 4 ... 998 ms, eight times; and 1, 3 ... 999.
	if even, odd := time.Duration(c[0].Total), time.Duration(c[1].Total); even != processes*249_500*time.Millisecond || odd != processes*250_000*time.Millisecond {
		t.Errorf("in total %v and %v", even, odd)
	}
}

// A call-out can be stopped at any moment, and whoever may open the file can lock it.
func TestACallOutIsCountedWhileAProcessHasTheFile(t *testing.T) {
	path := newCalls(t)
	other, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	Record(path, "mount", "Success", time.Second)
	if c, err := ReadCalls(path); err != nil || c[1].Outcomes[0] != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

func newCalls(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callouts")
	if err := CreateCalls(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCreateCallsLeavesCountsThatAreThere(t *testing.T) {
	path := newCalls(t)
	Record(path, "mount", "Success", time.Second)
	if err := CreateCalls(path); err != nil {
		t.Fatal(err)
	}
	if c, err := ReadCalls(path); err != nil || c[1].Outcomes[0] != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestADurationIsInTheClassWhoseBoundItDoesNotExceed(t *testing.T) {
	for i, bound := range bounds {
		if class(bound) != i || class(bound+1) != i+1 || class(bound-1) != i {
			t.Errorf("%v is in class %d, and a nanosecond more in %d", bound, class(bound), class(bound+1))
		}
	}
	if class(0) != 0 || class(-time.Second) != 0 || class(math.MaxInt64) != len(bounds) {
		t.Error("0, less, or more than all bounds")
	}
}
