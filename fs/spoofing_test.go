package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// victimUID is the pod that an author would like to be.
const victimUID = "9c5b0b2b-0f7e-4a0e-8f0a-5d8c6b7a9e1f"

// beside returns the good options with another one before them, and after
// them. Decoders differ in which of two they take.
func beside(key, value string) []string {
	pair := fmt.Sprintf(`"%s":%s`, key, value)
	return []string{testnode.Edit("{", "{"+pair+","), testnode.Edit("}", ","+pair+"}")}
}

// TestNobodyReadsAsAnotherPod tries what the author of a pod could write into the
// options of a flexVolume, whether the API server lets it pass or not. The kubelet
// merges those options last.
func TestNobodyReadsAsAnotherPod(t *testing.T) {
	const victim = `"` + victimUID + `"`
	type attack struct {
		name    string
		options []string
		message string // of the Failure; "": harmless
	}
	key := func(name, key, message string) attack { return attack{name, beside(key, victim), message} }
	one := func(name, options, message string) attack { return attack{name, []string{options}, message} }
	for _, a := range []attack{
		// Keys that a careless decoder takes for the kubelet's.
		key("upper case", "KUBERNETES.IO/POD.UID", "is not known"),
		key("upper case in the name", "kubernetes.io/pod.UID", ""),
		key("upper case in the name space", "Kubernetes.io/pod.uid", "is not known"),
		key("long s for s", "kubernete\u017f.io/pod.uid", "is not known"),
		key("long s for s, escaped", `kubernete\u017f.io/pod.uid`, "is not known"),
		key("Kelvin sign for k", "\u212aubernetes.io/pod.uid", "is not known"),
		key("dotless i", "kubernetes.\u0131o/pod.uid", "is not known"),
		key("Cyrillic e", "kub\u0435rnetes.io/pod.uid", "is not known"),
		key("full-width k", "\uff4bubernetes.io/pod.uid", "is not known"),
		key("division slash", "kubernetes.io\u2215pod.uid", "is not known"),
		key("zero-width space in the name", "kubernetes.io/pod\u200b.uid", ""),
		key("zero-width space before", "\u200bkubernetes.io/pod.uid", "is not known"),
		key("combining mark in the name", "kubernetes.io/pod.uid\u0301", ""),
		key("space before", " kubernetes.io/pod.uid", "is not known"),
		key("space after", "kubernetes.io/pod.uid ", ""),
		key("NUL after", `kubernetes.io/pod.uid\u0000`, ""),
		key("newline before", `\nkubernetes.io/pod.uid`, "is not known"),
		key("two slashes", "kubernetes.io//pod.uid", ""),
		key("the other name space", "k8s.io/pod.uid", "is not known"),
		key("a subdomain", "x.kubernetes.io/pod.uid", "is not known"),
		key("the name alone", "pod.uid", "is not known"),
		key("the name of a field", "PodUID", "is not known"),
		key("the name of a field of the record", "podUID", "is not known"),
		key("a path", "../volumes/1.json", "is not known"),
		key("half a surrogate pair", `\ud800kubernetes.io/pod.uid`, "is not known"),
		key("no UTF-8", "\xffkubernetes.io/pod.uid", "is not known"),

		// Values.
		one("another pod's UID", testnode.Edit(testnode.PodUID, victimUID), "belongs to pod"),
		one("the UID in upper case", testnode.Edit(testnode.PodUID, strings.ToUpper(testnode.PodUID)), "belongs to pod"),
		one("the UID without its dashes", testnode.Edit(testnode.PodUID, strings.ReplaceAll(testnode.PodUID, "-", "")), "belongs to pod"),
		one("the beginning of the UID", testnode.Edit(testnode.PodUID, testnode.PodUID[:8]), "not a pod's UID"),
		one("two UIDs", testnode.Edit(testnode.PodUID, testnode.PodUID+`\n`+victimUID), "not a pod's UID"),
		one("a UID and a NUL", testnode.Edit(testnode.PodUID, testnode.PodUID+`\u0000`), "not a pod's UID"),
		one("a path", testnode.Edit(testnode.PodUID, "../"+testnode.PodUID), "not a pod's UID"),
		one("a list of UIDs", testnode.Edit(`"`+testnode.PodUID+`"`, `["`+testnode.PodUID+`"]`), "not a JSON object of strings"),
		one("null", testnode.Edit(`"`+testnode.PodUID+`"`, "null"), "is not a pod's UID"),
		one("no UID", testnode.Edit(testnode.UIDOption+",", ""), "is missing"),
		one("another service account, quoted", testnode.Edit(`"default"`, `"default\",\"podUID\":\"`+victimUID+`"`), ""),
		one("control characters in a name", testnode.Edit(`"web-0"`, `"web\u001b[2J\n0"`), ""),

		// Structure.
		one("an object for a value", testnode.Edit(`"rw"`, `{"kubernetes.io/pod.uid":"`+victimUID+`"}`), "not a JSON object of strings"),
		one("nested a thousand times", testnode.Edit(`"rw"`, strings.Repeat(`{"a":`, 1000)+"1"+strings.Repeat("}", 1000)), "not a JSON object of strings"),
		one("two objects", testnode.GoodOptions+testnode.Edit(testnode.PodUID, victimUID), "not a JSON object of strings"),
		one("an object in a list", "["+testnode.GoodOptions+"]", "not a JSON object"),
		one("a comment", testnode.Edit("{", "{/*"+victim+"*/"), "not a JSON object of strings"),
		one("a byte order mark", "\ufeff"+testnode.GoodOptions, "not a JSON object of strings"),
		one("cut off", testnode.GoodOptions[:len(testnode.GoodOptions)-1], "not a JSON object of strings"),
		one("nothing", "", "not a JSON object of strings"),
		one("an option of 100 KB", testnode.Edit("{", `{"colour":"`+strings.Repeat("x", 100_000)+`",`), "is not known"),
		one("a name of 100 KB", testnode.Edit("web-0", strings.Repeat("x", 100_000)), "has 100000 bytes"),
		one("the longest name", testnode.Edit("web-0", strings.Repeat("x", 253)), ""),
		one("ten thousand options", testnode.Edit("{", "{"+manyOptions(10_000)), "is not known"),
		one("ten thousand of the kubelet's", testnode.Edit("{", "{"+manyOptions(3_000, "kubernetes.io/")), ""),
	} {
		for i, options := range a.options {
			t.Run(fmt.Sprintf("%s/%d", a.name, i), func(t *testing.T) {
				d := testnode.Install(t)
				dir := filepath.Join(t.TempDir(), "pods", testnode.PodUID, "volumes/example.com~pod-info-fuse/info")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				switch answer := d.Call("mount", dir, options); {
				case answer.Status == "Failure":
					if a.message == "" || !strings.Contains(answer.Message, a.message) || len(answer.Message) > 1000 {
						t.Errorf("message %.2000q, want %q", answer.Message, a.message)
					}
				case a.message != "":
					t.Errorf("%+v, want a Failure", answer)
				default:
					if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
						t.Errorf("pod.uid is %q", got)
					}
					if s := d.Status(); len(s.Volumes) != 1 || s.Volumes[0].PodUID != testnode.PodUID || s.Volumes[0].State != "ok" {
						t.Errorf("status: %.2000v", s)
					}
					d.Must("unmount", dir)
					testnode.Gone(t, d, dir)
					return
				}
				testnode.LeftNothing(t, d, dir)
			})
		}
	}
}

// manyOptions returns options, with a comma after each.
func manyOptions(count int, prefix ...string) string {
	var all strings.Builder
	for i := range count {
		fmt.Fprintf(&all, `"%so%d":"x",`, strings.Join(prefix, ""), i)
	}
	return all.String()
}

// Links below the kubelet's directory of a pod must not lead the driver elsewhere.
func TestNoLinkLeadsOutOfThePodsDirectory(t *testing.T) {
	const plugin = "example.com~pod-info-fuse"
	for _, component := range []string{"pod", "volumes", "plugin", "name"} {
		t.Run(component, func(t *testing.T) {
			d := testnode.Install(t)
			base := t.TempDir()
			victim := filepath.Join(base, "victim")
			parts := map[string]string{"pod": testnode.PodUID, "volumes": "volumes", "plugin": plugin, "name": "info"}
			at, beyond := filepath.Join(base, "pods"), victim
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
			linked := false
			for _, c := range []string{"pod", "volumes", "plugin", "name"} {
				at = filepath.Join(at, parts[c])
				switch {
				case c == component:
					linked = true
					if err := os.Symlink(victim, at); err != nil {
						t.Fatal(err)
					}
				case linked:
					beyond = filepath.Join(beyond, parts[c])
				default:
					if err := os.Mkdir(at, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := os.MkdirAll(beyond, 0o755); err != nil {
				t.Fatal(err)
			}
			if a := d.Call("mount", at, testnode.GoodOptions); a.Status != "Failure" || !strings.Contains(a.Message, "symbolic link") {
				t.Errorf("mount: %+v", a)
			}
			testnode.LeftNothing(t, d, beyond)
			d.Must("unmount", at)
		})
	}
}
