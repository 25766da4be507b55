package inject

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// catalogue is a list of one program, beside those of the examples.
func catalogue(t testing.TB) List {
	t.Helper()
	examples, err := os.ReadFile("../../deploy/examples/programs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list, err := Read(examples, []byte("podFuse: {programs: {p: {image: i, command: [p, '{}']}}}"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// printed is what becomes of a manifest. Injected again, it stays as it is.
func printed(t *testing.T, manifest string) string {
	t.Helper()
	list := catalogue(t)
	once, err := list.Manifest(manifest)
	if err != nil {
		t.Fatalf("%v, of\n%s", err, manifest)
	}
	if again, err := list.Manifest(once); err != nil || again != once {
		t.Errorf("injected again: %v\n%s\nand was\n%s", err, again, once)
	}
	return once
}

// A document to which something is added is written as kubectl does. Others stay as they are.
func TestWhatIsPrinted(t *testing.T) {
	manifest, err := os.ReadFile("testdata/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/injected.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := printed(t, string(manifest)); got != string(want) {
		t.Errorf("it is\n%s", got)
	}
}

const (
	asksByCSI = "{name: data, csi: {driver: pod-fuse.example.com, volumeAttributes: {program: p}}}"
	annotates = "metadata: {name: x, annotations: {pod-fuse.example.com/serves: app=data}}\n"
	clientCSI = "{name: data, csi: {driver: pod-fuse.example.com}}"
)

// Whatever its form, YAML gets the same.
func TestFormsOfYAML(t *testing.T) {
	for name, row := range map[string]struct{ manifest, want string }{
		"a list of init containers": {
			"kind: Pod\nspec:\n  initContainers: # first\n  - name: first\n  volumes:\n  - " + asksByCSI + "\n", "volumes: data, data-server; initContainers: data-program, first",
		},
		"an indented one": {
			"kind: Pod\nspec:\n  initContainers:\n\n    # first\n    - name: first\n    - name: second\n  volumes:\n    - " + asksByCSI + "\n",
			"volumes: data, data-server; initContainers: data-program, first, second",
		},
		"lists in brackets":        {"kind: Pod\nspec:\n  initContainers: [{name: first}]\n  volumes: [" + asksByCSI + "]\n", "volumes: data, data-server; initContainers: data-program, first"},
		"over several lines":       {"kind: Pod\nspec:\n  volumes: [\n    " + asksByCSI + ", # [it\n    ]\n", "volumes: data, data-server; initContainers: data-program"},
		"an empty list":            {"kind: Pod\nspec:\n  initContainers: [ ]\n  volumes:\n  - " + asksByCSI, "volumes: data, data-server; initContainers: data-program"},
		"no last newline":          {"kind: Pod\nspec:\n  volumes:\n  - " + asksByCSI, "volumes: data, data-server; initContainers: data-program"},
		"Windows' newlines":        {"kind: Pod\r\nspec:\r\n  volumes:\r\n  - " + asksByCSI + "\r\n  hostname: x\r\n", "volumes: data, data-server; initContainers: data-program"},
		"JSON":                     {`{"kind": "Pod", "spec": {"volumes": [` + "\n\t" + `{"name": "data", "csi": {"driver": "pod-fuse.example.com", "volumeAttributes": {"program": "p"}}}]}}`, "volumes: data, data-server; initContainers: data-program"},
		"quoted keys":              {"'kind': Pod\n\"spec\":\n  \"volumes\":\n  - " + asksByCSI + "\n", "volumes: data, data-server; initContainers: data-program"},
		"a document's marks":       {"--- # it\nkind: Pod\nspec:\n  volumes:\n  - " + asksByCSI + "\n...\n", "volumes: data, data-server; initContainers: data-program"},
		"a document in its mark":   {"--- {kind: Pod, spec: {volumes: [" + asksByCSI + "]}}\n", "volumes: data, data-server; initContainers: data-program"},
		"other letters":            {"kind: Pod\nmetadata: {name: \"größer\u2028 😀\"}\nspec: {nodeName: '日本', volumes: [" + asksByCSI + "], hostname: 日}\n", "volumes: data, data-server; initContainers: data-program"},
		"text that looks alike":    {"kind: Pod\nspec:\n  volumes:\n  - " + asksByCSI + "\n  - name: x\n    y: |\n      a\n     \n      # b\n\n  containers:\n  - args: [\"]\"]\n", "volumes: data, x, data-server; initContainers: data-program"},
		"a carriage return":        {strings.ReplaceAll("kind: Pod\nspec:\n  volumes:\n  - "+asksByCSI+"\n", "\n", "\r"), "volumes: data, data-server; initContainers: data-program"},
		"null":                     {"kind: Pod\nspec:\n  initContainers:\n  volumes: [" + asksByCSI + "]\n", "volumes: data, data-server; initContainers: data-program"},
		"an alias":                 {"x: &x [" + asksByCSI + "]\nkind: Pod\nspec: {volumes: *x}\n", "volumes: data, data-server; initContainers: data-program"},
		"a merge":                  {"kind: Pod\nspec:\n  x: &x {initContainers: [{name: a}]}\n  <<: *x\n  volumes:\n  - " + asksByCSI + "\n", "volumes: data, data-server; initContainers: data-program, a"},
		"numbers":                  {"kind: Pod\nspec: {x: [9007199254740993, 0644, 1e3, 'yes', \"1:30\"], volumes: [" + asksByCSI + "]}\n", "volumes: data, data-server; initContainers: data-program"},
		"an anchor":                {"kind: Pod\nspec: &spec\n  volumes: &volumes\n  - " + asksByCSI + "\n", "volumes: data, data-server; initContainers: data-program"},
		"an alias beside":          {"kind: Pod\nmetadata: {labels: &l {a: b}, annotations: *l}\nspec:\n  volumes:\n  - " + asksByCSI + "\n", "volumes: data, data-server; initContainers: data-program"},
		"no list of mounts":        {"kind: Pod\n" + annotates + "spec:\n  volumes: [" + clientCSI + "]\n  containers:\n  - name: app\n    image: i\n  - name: b\n", "volumes: data, data-server; containers: app(4), b"},
		"nor in brackets":          {"kind: Pod\n" + annotates + "spec:\n  volumes: [" + clientCSI + "]\n  containers: [{name: app}, {name: b}]\n", "volumes: data, data-server; containers: app(4), b"},
		"a list of mounts":         {"kind: Pod\n" + annotates + "spec:\n  volumes: [" + clientCSI + "]\n  containers:\n  - volumeMounts:\n    - {name: x, mountPath: /x}\n    name: app\n  - name: b\n", "volumes: data, data-server; containers: app(5), b"},
		"a container at the end":   {"kind: Pod\n" + strings.Replace(annotates, "=data", "=own", 1) + "spec:\n  volumes: [" + asksByCSI + ", {name: own, csi: {driver: pod-fuse.example.com}}]\n  containers:\n  - name: app", "volumes: data, own, data-server, own-server; initContainers: data-program; containers: app(4)"},
		"no workload: a ConfigMap": {"kind: ConfigMap\nspec:\n  volumes:\n  - " + asksByCSI + "\n", "volumes: data"},
	} {
		t.Run(name, func(t *testing.T) {
			got := printed(t, row.manifest)
			object, err := decode(documents(strings.TrimSuffix(got, "...\n"))[strings.Count(got[:3], "---")])
			if err != nil {
				t.Fatal(err)
			}
			var lists []string
			for _, list := range []string{"volumes", "initContainers", "containers"} {
				all := names(in(object, "spec", list))
				for i := range all {
					if mounts := items(in(at(in(object, "spec", list), i), "volumeMounts")); len(mounts) > 0 && list == "containers" {
						all[i] += "(" + string(rune('0'+len(mounts))) + ")"
					}
				}
				if len(all) > 0 && !slices.Equal(all, []string{""}) {
					lists = append(lists, list+": "+strings.Join(all, ", "))
				}
			}
			if got := strings.Join(lists, "; "); got != row.want {
				t.Errorf("it has %q, want %q", got, row.want)
			}
		})
	}
}

// A workload of any kind, also within a List, gets its program. What is none is kept as it is.
func TestKinds(t *testing.T) {
	const pod = "{metadata: {}, spec: {volumes: [" + asksByCSI + "]}}"
	for _, row := range []struct {
		manifest string
		programs int
	}{
		{"{kind: Pod, spec: {volumes: [" + asksByCSI + "]}}", 1},
		{"{kind: Deployment, spec: {template: " + pod + "}}", 1},
		{"{kind: StatefulSet, spec: {template: " + pod + "}}", 1},
		{"{kind: DaemonSet, spec: {template: " + pod + "}}", 1},
		{"{kind: ReplicaSet, spec: {template: " + pod + "}}", 1},
		{"{kind: ReplicationController, spec: {template: " + pod + "}}", 1},
		{"{kind: Job, spec: {template: " + pod + "}}", 1},
		{"{kind: CronJob, spec: {jobTemplate: {spec: {template: " + pod + "}}}}", 1},
		{"kind: List\nitems:\n- {kind: Job, spec: {template: " + pod + "}}\n- {kind: Service}\n- kind: Pod\n  spec:\n    volumes:\n    - " + asksByCSI + "\n    hostname: x\n", 2},
		{"kind: Pod\nspec:\n  volumes:\n  - " + asksByCSI + "\n---\nkind: Pod\nspec:\n  volumes:\n  - " + asksByCSI, 2},
		{"kind: Service\n---\t# x\nkind: Pod\nspec: {volumes: [" + asksByCSI + "]}\n", 1},
		{"kind: Service\n... # x\nkind: Pod\nspec: {volumes: [" + asksByCSI + "]}\n", 1},
		{"\ufeffkind: Pod\nspec: {volumes: [" + asksByCSI + "]}\n", 1},
		{"{kind: PodTemplate, template: " + pod + "}", 0},
		{"{kind: Rollout, spec: {template: " + pod + "}}", 0},
		{"{kind: CronJob, spec: {template: " + pod + "}}", 0},
		{"kind: ConfigMap\ndata:\n  pod: |\n    kind: Pod\n    spec: {volumes: [" + asksByCSI + "]}\n", 0},
		{"kind: Pod\nspec: {volumes: [{name: data, csi: {driver: pod-fuse.example.com, volumeAttributes: {wait: 1s}}}]} # program\n", 0},
		{"kind: Pod\nspec: {volumes: [{name: data, csi: {driver: x.example.com, volumeAttributes: {program: p}}}]} # pod-fuse\n", 0},
		{"kind: Deployment # pod-fuse, of which there is no more\n", 0},
		{"\n# pod-fuse\n---\n\n---\n...\n", 0},
		{"%templates% of Helm {{ .Values.x }}", 0},
		{"", 0},
	} {
		got := printed(t, row.manifest)
		if n := strings.Count(got, "data-program"); n != row.programs || n == 0 && got != row.manifest {
			t.Errorf("%q has become %q", row.manifest, got)
		}
	}
}

// What kubectl does not read is refused, and so are keys that occur twice. One mutation a row of
// what is printed.
func TestYAMLThatIsRefused(t *testing.T) {
	const lists = "  initContainers: [{name: a}]\n  volumes:\n  - " + asksByCSI + "\n"
	printed(t, "kind: Pod\nspec:\n"+lists)
	bomb := "a: &a [x, x]\n" // which doubles with each line
	for i := range 20 {
		bomb += fmt.Sprintf("%c: &%[1]c [*%c, *%[2]c]\n", 'b'+i, 'a'+i)
	}
	for manifest, want := range map[string]string{
		bomb + "kind: Pod\nspec:\n" + lists:                         "document contains excessive aliasing",
		"\xff\xfek\x00i\x00n\x00d\x00":                              "the manifest is not UTF-8",
		"kind: Pod\nspec:\n" + lists + "  x: [\n":                   "line 6: did not find expected node content",
		"kind: Pod\nspec:\n" + lists + "  volumes: []\n":            `line 6: key "volumes" already set in map`,
		"---\nkind: Pod\n---\nkind: Pod\nspec:\n" + lists + "\t- x": "line 9: found character",
	} {
		got, err := catalogue(t).Manifest(manifest)
		if got != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q, and %q of\n%s", err, want, got, manifest)
		}
	}
}

// Each pod that is refused is named, and nothing else is printed.
func TestAllRefusalsAreSaid(t *testing.T) {
	const pod = "---\nkind: Pod\nmetadata: {name: x}\nspec: {volumes: [{name: data, csi: {driver: pod-fuse.example.com, volumeAttributes: {program: x}}}]}\n"
	got, err := catalogue(t).Manifest(pod + "---\nkind: Pod\nspec: {volumes: [" + asksByCSI + "]}\n" + strings.Replace(pod, "program: x", "program: bindfs", 1))
	const want = "Pod x: Volume data: there is no program x. Programs: bindfs, gcsfuse, gocryptfs, p, rclone, s3fs, squashfuse, sshfs.\n" +
		"Pod x: Volume data: program bindfs needs option source. Options: perms, wait, default_permissions, source."
	if got != "" || err == nil || err.Error() != want {
		t.Errorf("%q, %v", got, err)
	}
}

// Later values replace earlier ones, as with Helm.
func TestValuesOfSeveralFiles(t *testing.T) {
	list, err := Read([]byte("image: {tag: x}\npodFuse: {enabled: true, programs: {a: {image: i, command: [a, '{}'], env: {A: a, B: b}}, b: {}}}"),
		[]byte("podFuse: {driver: example.org/fuse, programs: {b: null, a: {image: j, env: {B: null}}}}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := list.programs["a"]; list.csi != "fuse.example.org" || list.names() != "a" || a.Image != "j" || len(a.Env) != 1 || a.Command[0] != "a" {
		t.Errorf("%+v, %+v", list, a)
	}
}

// Of a program that is let in, one mutation a row.
func TestListsThatAreRefused(t *testing.T) {
	for more, want := range map[string]string{
		"":                      "",
		"image: ''":             "podFuse.programs.a: image and command are required",
		"command: []":           "podFuse.programs.a: image and command are required",
		"command: x":            "podFuse.programs.a: json: cannot unmarshal string",
		"command: [a, 1, '{}']": "podFuse.programs.a: json: cannot unmarshal number",
		"comand: [a]":           `podFuse.programs.a: json: unknown field "comand"`,
		"env: {o: 1}":           "podFuse.programs.a: json: cannot unmarshal number",
	} {
		_, err := Read([]byte("podFuse: {programs: {a: {image: i, command: [a, '{}', $(o)], options: [o]}}}"), []byte("podFuse:\n  programs:\n    a: {"+more+"}"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
	for values, want := range map[string]string{"podFuse: {driver: x}": `podFuse.driver: "x" is not VENDOR/NAME`, "podFuse: {programs: [a]}": "podFuse.programs is not a map", "a: [": "values: "} {
		if _, err := Read([]byte(values)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// FuzzManifest looks for YAML that ends the command, and for a result to which more would be added.
// That nothing else is changed, the command checks itself.
func FuzzManifest(f *testing.F) {
	for _, manifest := range []string{
		"kind: Pod\n" + annotates + "spec:\n  containers: # x\n  - name: app\n\n  volumes:\n  - " + clientCSI + "\n",
		"kind: List\nitems: [{kind: Job, spec: {template: {spec: {volumes: [" + asksByCSI + "]}}}}]\n",
		"x: &x [" + asksByCSI + "]\nkind: Pod\nspec: {initContainers: [], <<: *x, volumes: *x}\n---\n",
		"kind: Pod\nspec:\n  initContainers:\n    - y: |+\n        a\n  ? volumes\n  : - " + asksByCSI + "\n  # x",
	} {
		f.Add(manifest)
	}
	list := catalogue(f)
	f.Fuzz(func(t *testing.T, manifest string) {
		once, err := list.Manifest(manifest)
		if err != nil {
			return
		}
		if again, err := list.Manifest(once); err != nil || again != once {
			t.Errorf("of %q, %q becomes %q, %v", manifest, once, again, err)
		}
	})
}
