package flex_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"example.com/pod-info-fuse/flex"
)

// plain implements the call-outs that every driver has.
type plain struct {
	err  error
	seen string
}

func (p *plain) Init() (flex.Capabilities, error) {
	if p.err != nil && p.err.Error() == "panic" {
		panic("index out of range")
	}
	return flex.Capabilities{}, p.err
}

func (p *plain) Mount(dir string, options flex.Options) error {
	p.seen = fmt.Sprintf("mount %s %s", dir, options.Get(flex.OptionPodUID))
	return p.err
}

func (p *plain) Unmount(dir string) error {
	p.seen = "unmount " + dir
	return p.err
}

// The order of arguments is that of kubernetes v1.34, pkg/volume/flexvolume.
var everyCallOut = []struct {
	args   []string
	seen   string
	answer string
}{
	{[]string{"mount", "/d", `{"kubernetes.io/pod.uid":"u"}`}, "mount /d u", `{"status":"Success"}`},
	{[]string{"unmount", "/d"}, "unmount /d", `{"status":"Success"}`},
}

func TestEveryCallOutReachesTheDriver(t *testing.T) {
	for _, row := range everyCallOut {
		driver := &plain{}
		if got := encode(flex.Call(driver, row.args)); got != row.answer {
			t.Errorf("%q: answer %s, want %s", row.args, got, row.answer)
		}
		if driver.seen != row.seen {
			t.Errorf("%q: the driver saw %q, want %q", row.args, driver.seen, row.seen)
		}
	}
}

func TestDriverErrorIsAFailure(t *testing.T) {
	for _, row := range everyCallOut {
		got := flex.Call(&plain{err: errors.New("disk on fire")}, row.args)
		if encode(got) != `{"status":"Failure","message":"disk on fire"}` {
			t.Errorf("%q: %s", row.args, encode(got))
		}
	}
}

// A kubelet ignores the field; a CSI plugin makes a code of it.
func TestAnErrorOfTheCallersSaysSo(t *testing.T) {
	wrong := fmt.Errorf("mount: %w", flex.Invalid(errors.New("option")))
	for _, row := range everyCallOut {
		got := flex.Call(&plain{err: wrong}, row.args)
		if encode(got) != `{"status":"Failure","message":"mount: option","invalid":true}` {
			t.Errorf("%q: %s", row.args, encode(got))
		}
		if got := flex.Call(&plain{}, append(row.args[:len(row.args):len(row.args)], "extra")); !got.Invalid {
			t.Errorf("%q with another argument: %s", row.args, encode(got))
		}
	}
	if flex.Invalid(nil) != nil {
		t.Error("no error is one")
	}
}

func TestWrongNumberOfArgumentsIsAFailure(t *testing.T) {
	for _, row := range everyCallOut {
		for _, args := range [][]string{row.args[:len(row.args)-1], append(row.args[:len(row.args):len(row.args)], "extra")} {
			driver := &plain{}
			got := flex.Call(driver, args)
			if got.Status != flex.Failure || !strings.Contains(got.Message, fmt.Sprintf("has %d", len(args)-1)) {
				t.Errorf("%q: %s", args, encode(got))
			}
			if driver.seen != "" {
				t.Errorf("%q reached the driver: %s", args, driver.seen)
			}
		}
	}
}

func TestOtherCallOutsAreNotSupported(t *testing.T) {
	for _, args := range [][]string{{"attach", "{}", "node"}, {"getvolumename", "{}"}, {"remount"}, {""}} {
		if got := flex.Call(&plain{}, args); got.Status != flex.NotSupported {
			t.Errorf("%q: %s", args, encode(got))
		}
	}
}

func TestInitAnswersEveryCapability(t *testing.T) {
	want := `{"status":"Success","capabilities":{"attach":false,"selinuxRelabel":false,"supportsMetrics":false,"fsGroup":false,"requiresFSResize":false}}`
	if got := encode(flex.Call(&plain{}, []string{"init"})); got != want {
		t.Errorf("init: %s, want %s", got, want)
	}
}

func TestPanicIsAFailure(t *testing.T) {
	got := flex.Call(&plain{err: errors.New("panic")}, []string{"init"})
	if got.Status != flex.Failure || !strings.Contains(got.Message, "index out of range") {
		t.Errorf("init that panics: %s", encode(got))
	}
}

func encode(answer flex.Answer) string {
	return strings.TrimSuffix(string(answer.Encode()), "\n")
}

func FuzzAnswer(f *testing.F) {
	f.Add("Failure", "mount /var/lib/kubelet: \"no\" <such> &\n\x00directory")
	f.Add("Success", "\xff\xfe not UTF-8")
	f.Add("Not supported", "\u2028 separates lines in JavaScript")
	f.Fuzz(func(t *testing.T, status, message string) {
		line := flex.Answer{Status: flex.Status(status), Message: message}.Encode()
		if strings.Count(string(line), "\n") != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("not one line: %q", line)
		}
		var decoded map[string]any // what any reader of JSON would see
		if err := json.Unmarshal(line, &decoded); err != nil {
			t.Fatalf("not JSON: %v: %q", err, line)
		}
		if message != "" && utf8.ValidString(message) && decoded["message"] != message {
			t.Fatalf("message %q became %q", message, decoded["message"])
		}
	})
}
