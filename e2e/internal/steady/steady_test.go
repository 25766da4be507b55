package steady

import (
	"bytes"
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestTimesAreSummarised(t *testing.T) {
	ms := func(all ...int) (taken []time.Duration) {
		for _, one := range all {
			taken = append(taken, time.Duration(one)*time.Millisecond)
		}
		return taken
	}
	hundred := make([]int, 200)
	for i := range hundred {
		hundred[i] = 200 - i
	}
	for name, c := range map[string]struct {
		taken []time.Duration
		want  map[string]float64
	}{
		"one":         {ms(7), map[string]float64{Number: 1, Median: 7, P99: 7, Longest: 7}},
		"few":         {ms(3, 9, 1), map[string]float64{Number: 3, Median: 3, P99: 9, Longest: 9}},
		"two hundred": {ms(hundred...), map[string]float64{Number: 200, Median: 101, P99: 199, Longest: 200}},
	} {
		times := &Times{Name: name}
		times.Add(c.taken...)
		if got := times.take().figures(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		if again := times.take(); again.number != 0 {
			t.Errorf("%s: %d are there after they were taken", name, again.number)
		}
	}
}

func TestWhatFailsIsNotTimed(t *testing.T) {
	times := new(Times)
	_ = times.Of(func() error { return errors.New("failed") })
	_ = times.Of(func() error { return nil })
	if n := times.take().number; n != 1 {
		t.Errorf("%d were taken down", n)
	}
	var nobodys *Times
	nobodys.Add(time.Second)
}

func TestLinesAreReadAsTheyWereWritten(t *testing.T) {
	want := []Line{
		{At: time.Unix(1, 0).UTC(), Name: "one", Figures: map[string]float64{Private: 3000}},
		{At: time.Unix(2, 5).UTC(), Name: "other", Figures: map[string]float64{Median: 0.25}},
	}
	var file bytes.Buffer
	if err := Write(&file, want...); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	if _, err := Read(strings.NewReader(`{"name": "cut`)); err == nil {
		t.Error("half a line is no error")
	}
}

// This process has something open at the end that it had not in the beginning.
func TestAWatchFindsADescriptorThatIsLeftOpen(t *testing.T) {
	var file bytes.Buffer
	looks := 0
	times := &Times{Name: "look"}
	w := Watch{Processes: []Process{{"this", os.Getpid()}}, Times: []*Times{times}, Lines: &file}
	w.Undisturbed = func() error {
		looks++
		times.Add(time.Millisecond)
		if looks == 4 {
			left, err := os.Open("/proc/self/stat")
			t.Cleanup(func() { left.Close() })
			return err
		}
		return nil
	}
	if err := w.Until(context.Background(), time.Now().Add(80*time.Millisecond), 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if grown := strings.Join(w.Grown(), "\n"); !strings.Contains(grown, "this: "+Descriptors) {
		t.Errorf("grown is %q", grown)
	}
	if table := strings.Join(w.Table(), "\n"); !strings.Contains(table, "look") || !strings.Contains(table, Private) {
		t.Errorf("the table is %s", table)
	}
	lines, err := Read(&file)
	if err != nil || len(lines) < 2*looks-1 {
		t.Errorf("%d lines of %d looks (%v)", len(lines), looks, err)
	}
}

func TestAWatchEndsWhenItsProcessHas(t *testing.T) {
	gone := errors.New("another one has come")
	w := Watch{Processes: []Process{{"none", 1 << 30}}, Undisturbed: func() error { return gone }}
	if err := w.Until(context.Background(), time.Now().Add(time.Minute), time.Millisecond); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
