package flex_test

import (
	"fmt"
	"strings"
	"testing"

	"example.com/pod-info-fuse/flex"
)

func TestBadOptionsAreRefused(t *testing.T) {
	for problem, text := range map[string]string{
		"empty":              ``,
		"not JSON":           `secret`,
		"a list":             `["secret"]`,
		"a string":           `"secret"`,
		"not closed":         `{"a":"secret"`,
		"a number":           `{"a":1}`,
		"an object":          `{"a":{"b":"secret"}}`,
		"a list value":       `{"a":["secret"]}`,
		"a half value":       `{"a":"secret`,
		"a key that is none": `{a:"secret"}`,
		"text after":         `{"a":"secret"}{}`,
	} {
		_, err := flex.ParseOptions(text)
		if err == nil || !strings.Contains(err.Error(), "not a JSON object of strings") {
			t.Errorf("%s: %v", problem, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has a value in it: %v", problem, err)
		}
	}
}

// Go's decoder would fold each of these onto kubernetes.io/pod.uid if the
// options were a tagged struct.
func TestKeysAreNotFolded(t *testing.T) {
	for _, lookAlike := range []string{
		"kubernete\u017f.io/pod.uid", // long s
		"KUBERNETES.IO/pod.uid",
		"kubernetes.io/pod.UID",
		"\u212aubernetes.io/pod.uid", // Kelvin sign
		" kubernetes.io/pod.uid",
		"kubernetes.io/pod.uid\x00",
	} {
		options, err := flex.ParseOptions(fmt.Sprintf(`{"kubernetes.io/pod.uid":"true","%s":"forged"}`, strings.ReplaceAll(lookAlike, "\x00", `\u0000`)))
		if err != nil {
			t.Fatalf("%q: %v", lookAlike, err)
		}
		if got := options.Get(flex.OptionPodUID); got != "true" {
			t.Errorf("%q overrides pod.uid with %q", lookAlike, got)
		}
	}
}

func TestOwnOptionsAreThoseOutsideOfTheKubeletsNameSpace(t *testing.T) {
	options, err := flex.ParseOptions(`{"kubernetes.io/fsType":"","z":"1","kubernete\u017f.io/x":"2","k8s.io/y":"3"}`)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for key := range options.Own() {
		keys = append(keys, key)
	}
	if got := strings.Join(keys, " "); got != "k8s.io/y kubernete\u017f.io/x z" {
		t.Errorf("own options: %s", got)
	}
}

func TestOptionsPrintWithoutValues(t *testing.T) {
	options, err := flex.ParseOptions(`{"kubernetes.io/secret/password":"c2VjcmV0"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		text := fmt.Sprintf(format, options)
		if strings.Contains(text, "c2VjcmV0") || !strings.Contains(text, "secret/password") {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

func FuzzOptions(f *testing.F) {
	f.Add(`{"kubernetes.io/fsType":"","kubernetes.io/pod.uid":"1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1","kubernetes.io/readwrite":"rw"}`)
	f.Add(`{"a":"\ud800","b":"\u0000"}`)
	f.Add(`{"a":{"b":["c"]}}`)
	f.Add(" {\t\"a\" :\n\"b\" } ")
	f.Fuzz(func(t *testing.T, text string) {
		options, err := flex.ParseOptions(text)
		if err != nil {
			return
		}
		for key, value := range options.Own() {
			if got, present := options.Lookup(key); !present || got != value {
				t.Fatalf("%q: listed as %q, looked up as %q", key, value, got)
			}
			if strings.HasPrefix(key, "kubernetes.io/") {
				t.Fatalf("%q is listed as the author's own", key)
			}
		}
	})
}
