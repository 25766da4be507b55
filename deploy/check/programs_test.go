package check

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

const programsFile = "../examples/programs.yaml"

// programs are the policies of the catalogue of examples, with more values.
func programs(t *testing.T, more string) programPolicies {
	t.Helper()
	return policiesOf(t, programsFile, valuesFile(t, more))
}

// valuesFile is a file with values for the chart.
func valuesFile(t *testing.T, values string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// policiesOf are the policies that the chart has with values.
func policiesOf(t *testing.T, files ...string) programPolicies {
	t.Helper()
	flags := []string{"--set", "podFuse.enabled=true", "--show-only", "templates/programs.yaml"}
	for _, file := range files {
		flags = append(flags, "-f", file)
	}
	p := compile(t, []byte(render(t, flags...)))
	p.values = files
	return p
}

func podOf(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// asks is a pod that complies with the level restricted, and has a volume data with options.
func asks(options map[string]string) *corev1.Pod {
	yes, no, user := true, false, int64(1000)
	return &corev1.Pod{
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "app", Image: "busybox",
				SecurityContext: &corev1.SecurityContext{
					RunAsNonRoot: &yes, RunAsUser: &user, AllowPrivilegeEscalation: &no,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{byCSI("data", options), {Name: "files", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

func byCSI(name string, options map[string]string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "pod-fuse.example.com", VolumeAttributes: options}}}
}

func byFlexVolume(name string, options map[string]string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "example.com/pod-fuse", Options: options}}}
}

// stored is a pod as the policies let it in. Invoked again, they change nothing.
func (p programPolicies) stored(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	once, refusals := p.admit(t, pod)
	if len(refusals) > 0 {
		t.Fatalf("refused with %q", refusals)
	}
	if again, refusals := p.admit(t, once); text(t, again) != text(t, once) || len(refusals) > 0 {
		t.Errorf("invoked again: refused with %q, and is\n%s", refusals, text(t, again))
	}
	return once
}

func text(t *testing.T, object any) string {
	t.Helper()
	content, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// What a pod says becomes what docs/pod-fuse.md describes: all of it is here.
func TestAVolumeRunsAProgram(t *testing.T) {
	got := programs(t, "").stored(t, podOf(t, `
metadata: {name: reader}
spec:
  initContainers: [{name: first, image: busybox}]
  containers:
  - {name: app, image: busybox, volumeMounts: [{name: data, mountPath: /data}]}
  volumes:
  - {name: data, csi: {driver: pod-fuse.example.com, volumeAttributes: {program: s3fs, bucket: my-bucket, secret: keys, wait: 1m}}}
`))
	want := podOf(t, `
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  initContainers:
  - name: data-program
    image: registry.example.com/s3fs
    restartPolicy: Always
    command: [/run/pod-fuse/pod-fuse, run, --restart, --, s3fs, $(bucket), $(mountpoint), -f, -o, url=$(url),
      -o, endpoint=$(region), -o, "use_path_request_style,umask=0022"]
    env:
    - {name: bucket, value: my-bucket}
    - {name: mountpoint, value: /run/pod-fuse/mnt}
    - {name: region, value: us-east-1}
    - {name: url, value: "https://s3.amazonaws.com"}
    envFrom:
    - secretRef: {name: keys}
    resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 512Mi}}
    startupProbe: {exec: {command: [/run/pod-fuse/pod-fuse, ready]}, timeoutSeconds: 10, periodSeconds: 1, failureThreshold: 30}
    securityContext:
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL]}
      seccompProfile: {type: RuntimeDefault}
    volumeMounts:
    - {name: data-server, mountPath: /run/pod-fuse, readOnly: true}
    - {name: data-server, mountPath: /dev/fuse, subPath: fuse, readOnly: true}
    - {name: data-server, mountPath: /usr/bin/fusermount3, subPath: fusermount3, readOnly: true}
    - {name: data-server, mountPath: /usr/bin/fusermount, subPath: fusermount, readOnly: true}
  - {name: first, image: busybox}
  containers:
  - {name: app, image: busybox, volumeMounts: [{name: data, mountPath: /data}]}
  volumes:
  - {name: data, csi: {driver: pod-fuse.example.com, volumeAttributes: {program: s3fs, bucket: my-bucket, secret: keys, wait: 1m}}}
  - {name: data-server, csi: {driver: pod-fuse.example.com, volumeAttributes: {serves: data}}}
`)
	if got, want := text(t, got), text(t, want); got != want {
		t.Errorf("stored is\n%s\nwant\n%s", got, want)
	}
}

// What differs from that, by what the pod and the program say.
func TestWhatAProgramGets(t *testing.T) {
	p := programs(t, "podFuse: {programs: {gocryptfs: {secret: {name: usual}}}}")
	squashfs := map[string]string{"program": "squashfuse", "source": "files", "file": "tree.squashfs"}
	for name, row := range map[string]struct {
		pod  *corev1.Pod
		want []string // lines of what is stored
		not  string
	}{
		"by the other door": {
			func() *corev1.Pod { pod := asks(nil); pod.Spec.Volumes[0] = byFlexVolume("data", squashfs); return pod }(),
			[]string{"  - flexVolume:\n      driver: example.com/pod-fuse\n      options:\n        serves: data\n    name: data-server\n"}, "csi:",
		},
		"a source":            {asks(squashfs), []string{"    - mountPath: /source\n      name: files\n      readOnly: true\n", "    - name: file\n      value: tree.squashfs\n"}, "envFrom"},
		"a default":           {asks(map[string]string{"program": "bindfs", "source": "files"}), []string{"    - name: perms\n      value: a+rX\n"}, ""},
		"no default":          {asks(map[string]string{"program": "bindfs", "source": "files", "perms": "a=r"}), []string{"    - name: perms\n      value: a=r\n"}, "a+rX"},
		"a secret in files":   {asks(map[string]string{"program": "gocryptfs", "source": "files"}), []string{"  - name: data-secret\n    secret:\n      defaultMode: 288\n      secretName: usual\n", "    - mountPath: /secret\n      name: data-secret\n      readOnly: true\n"}, "envFrom"},
		"the pod's secret":    {asks(map[string]string{"program": "gocryptfs", "source": "files", "secret": "mine"}), []string{"secretName: mine\n"}, "usual"},
		"files and an option": {asks(map[string]string{"program": "sshfs", "remote": "u@h:/", "secret": "mine"}), []string{"    - name: remote\n      value: u@h:/\n    - name: port\n      value: \"22\"\n"}, "envFrom"},
		"other variables":     {asks(map[string]string{"program": "rclone", "path": "", "secret": "mine"}), []string{"    - name: XDG_CACHE_HOME\n      value: /tmp\n"}, "envFrom"},
		"its own server volume": {
			func() *corev1.Pod {
				pod := asks(squashfs)
				pod.Spec.Volumes = append(pod.Spec.Volumes, byCSI("mine", map[string]string{"serves": "data"}))
				return pod
			}(),
			nil, "data-program",
		},
		"no program": {asks(map[string]string{"wait": "5s"}), nil, "initContainers"},
	} {
		t.Run(name, func(t *testing.T) {
			got := text(t, p.stored(t, row.pod))
			for _, want := range row.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			if row.not != "" && strings.Contains(got, row.not) {
				t.Errorf("%q in\n%s", row.not, got)
			}
		})
	}
}

// Programs start in the order of their volumes, before everything else.
func TestSeveralVolumesWithPrograms(t *testing.T) {
	pod := asks(map[string]string{"program": "gcsfuse", "bucket": "one"})
	pod.Spec.InitContainers = []corev1.Container{{Name: "first"}}
	pod.Spec.Volumes = append(pod.Spec.Volumes, byFlexVolume("more", map[string]string{"program": "gcsfuse", "bucket": "two"}), byCSI("server", map[string]string{"serves": "other"}))
	var got []string
	for _, c := range programs(t, "").stored(t, pod).Spec.InitContainers {
		line := c.Name
		if len(c.Env) > 0 {
			line += " " + c.Env[0].Value + " " + c.VolumeMounts[0].Name
		}
		got = append(got, line)
	}
	if want := []string{"data-program one data-server", "more-program two more-server", "first"}; !slices.Equal(got, want) {
		t.Errorf("the init containers are %q, want %q", got, want)
	}
}

// A pod that complies with the level restricted still does with its program, whether it says so for
// the pod or for its containers.
func TestProgramsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	forAll := asks(map[string]string{"program": "gcsfuse", "bucket": "b"})
	forAll.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: forAll.Spec.Containers[0].SecurityContext.RunAsNonRoot}
	forAll.Spec.Containers[0].SecurityContext.RunAsNonRoot = nil
	for _, pod := range []*corev1.Pod{forAll, asks(map[string]string{"program": "gcsfuse", "bucket": "b"})} {
		stored := programs(t, "").stored(t, pod)
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &stored.ObjectMeta, &stored.Spec))
		if !result.Allowed {
			t.Errorf("forbidden: %s", result.ForbiddenDetail())
		}
	}
}

// Whatever a pod writes arrives as the value of its own variable. $$ is what the kubelet makes $ of
// (kubernetes v1.37, third_party/forked/golang/expansion).
func TestAValueArrivesAsItIs(t *testing.T) {
	p := programs(t, `podFuse: {programs: {plain: {image: x, command: [plain, --, "{}", $(value)], options: [value], env: {value: default, OTHER: $(value)}}}}`)
	for _, value := range []string{
		"", "'", `"; reboot; "`, "a\nb", "\\", "a,allow_other", "x -o allow_other", "a=b", "${value}", "`id`", "\u2028\U0001f600",
		"$(mountpoint)", "$", "$$", "$(OTHER)", "$(", strings.Repeat("$(x)", 16<<10),
	} {
		c := p.stored(t, asks(map[string]string{"program": "plain", "value": value})).Spec.InitContainers[0]
		want := []corev1.EnvVar{{Name: "value", Value: strings.ReplaceAll(value, "$", "$$")}, {Name: "OTHER", Value: "$(value)"}}
		if !slices.Equal(c.Env, want) {
			t.Errorf("of %.40q, the environment is %.200q", value, c.Env)
		}
		if got := c.Command[4:]; !slices.Equal(got, []string{"plain", "--", "{}", "$(value)"}) {
			t.Errorf("of %.40q, the command is %q", value, got)
		}
	}
}

// One mutation a row of a pod that is let in. What is wrong is said, and what there is instead.
func TestProgramsThatAreRefused(t *testing.T) {
	const (
		bindfs     = "Options: perms, wait, default_permissions, source."
		annotation = "Annotation pod-fuse.example.com/serves: "
	)
	p := programs(t, "")
	for _, row := range []struct{ key, value, want string }{
		{"program", "s4fs", "Volume data: there is no program s4fs. Programs: bindfs, gcsfuse, gocryptfs, rclone, s3fs, squashfuse, sshfs."},
		{"program", "", "Volume data: there is no program . Programs: bindfs, gcsfuse,"},
		{"program", "a\nb", "A volume asks for a program, or gives it an option, that there is not. Programs: bindfs, gcsfuse,"},
		{"program", strings.Repeat("x", 64<<10), "A volume asks for a program, or gives it an option, that there is not. Programs: bindfs, gcsfuse,"},
		{"program", "squashfuse", "Volume data: program squashfuse needs option file. Options: file, wait, default_permissions, source."},
		{"program", "gocryptfs", "Volume data: program gocryptfs needs option secret. Options: wait,"},
		{"perm", "a=r", "Volume data: program bindfs has no option perm. " + bindfs},
		{"z y x w v u t s r q p o n m l k j i h g f e d c b a", "x", "Volume data: program bindfs has no option a. " + bindfs},
		{"Perms", "a=r", "Volume data: program bindfs has no option Perms. " + bindfs},
		{"LD_PRELOAD", "/x", "Volume data: program bindfs has no option LD_PRELOAD. " + bindfs},
		{"mountpoint", "/x", "Volume data: program bindfs has no option mountpoint. " + bindfs},
		{"secret", "other", "Volume data: program bindfs has no option secret. " + bindfs},
		{"program=gocryptfs secret", "", "Volume data: option secret is the name of a Secret in the pod's namespace."},
		{"source", "file", "Volume data: option source is the name of another volume of the pod. Volumes: files."},
		{"source", "data", "Volume data: option source is the name of another volume of the pod. Volumes: files."},
		{"perms", "a=r,allow_root", "Volume data: option perms becomes a part of an argument, which may not have a comma or a backslash."},
		{"perms", `a=r\`, "Volume data: option perms becomes a part of an argument, which may not have a comma or a backslash."},
		{"perms", "-a", "Volume data: option perms becomes an argument, which may not begin with - or have {}."},
		{"perms", "a{}", "Volume data: option perms becomes an argument, which may not begin with - or have {}."},
		{"annotation", "app=files", annotation + "this pod has no volume files of example.com/pod-fuse that a program can serve. Volumes: data."},
		{"annotation", "app=claimed", annotation + "volume claimed is behind a claim, where no policy looks: without the annotation, give the pod a server volume that serves the persistent volume's name."},
		{"annotation", "apo=data", annotation + "this pod has no container apo. Containers: data-program, app."},
		{"annotation", "app=data", annotation + "volume data has the option program: remove that, or the annotation."},
		{"annotation", "app", annotation + "its value is CONTAINER=VOLUME: a container of this pod, and the volume that its program serves."},
		{"annotation", "", annotation + "its value is CONTAINER=VOLUME: "},
		{"annotation", "app=data=data", annotation + "its value is CONTAINER=VOLUME: "},
		{"annotation", "=", annotation + "this pod has no container . Containers: "},
		{"annotation", "a\n=data", "The value of annotation pod-fuse.example.com/serves is CONTAINER=VOLUME: "},
	} {
		t.Run(fmt.Sprintf("%s %.20q", row.key, row.value), func(t *testing.T) {
			options := map[string]string{"program": "bindfs", "source": "files"}
			pod := asks(options)
			if row.key == "annotation" {
				pod.Annotations = map[string]string{"pod-fuse.example.com/serves": row.value}
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "claimed", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}})
			} else {
				for _, key := range strings.Fields(row.key) {
					option, value, given := strings.Cut(key, "=")
					if !given {
						value = row.value
					}
					options[option] = value
				}
			}
			stored, got := p.admit(t, pod)
			if len(got) != 1 || !strings.HasPrefix(got[0], row.want) {
				t.Errorf("refused with %q, want %q", got, row.want)
			}
			// The API server checks what is added before it asks for the message.
			if added := len(stored.Spec.InitContainers); row.key != "annotation" && added != 0 {
				t.Errorf("%d containers are added", added)
			}
		})
	}
}

// A container of the pod's own gets what it has not got.
func TestTheAnnotationServes(t *testing.T) {
	p := policiesOf(t, valuesFile(t, "podFuse: {servesAnnotation: true}"))
	const mounts = `[{name: data-server, mountPath: /run/pod-fuse, readOnly: true}, {name: data-server, mountPath: /dev/fuse, subPath: fuse, readOnly: true},
      {name: data-server, mountPath: /usr/bin/fusermount3, subPath: fusermount3, readOnly: true}, {name: data-server, mountPath: /usr/bin/fusermount, subPath: fusermount, readOnly: true}]`
	for name, row := range map[string]struct{ pod, want string }{
		"an init container": {
			`{initContainers: [{name: x}, {name: program}], containers: [{name: app}], volumes: [{name: data, csi: {driver: pod-fuse.example.com}}]}`,
			`{initContainers: [{name: x}, {name: program, volumeMounts: ` + mounts + `}], containers: [{name: app}],
      volumes: [{name: data, csi: {driver: pod-fuse.example.com}}, {name: data-server, csi: {driver: pod-fuse.example.com, volumeAttributes: {serves: data}}}]}`,
		},
		"an ordinary container": {
			`{containers: [{name: app}, {name: program}], volumes: [{name: data, flexVolume: {driver: example.com/pod-fuse}}]}`,
			`{containers: [{name: app}, {name: program, volumeMounts: ` + mounts + `}],
      volumes: [{name: data, flexVolume: {driver: example.com/pod-fuse}}, {name: data-server, flexVolume: {driver: example.com/pod-fuse, options: {serves: data}}}]}`,
		},
		"a server volume by another name, and one mount": {
			`{containers: [{name: program, volumeMounts: [{name: mine, mountPath: /run/pod-fuse}]}],
      volumes: [{name: data, csi: {driver: pod-fuse.example.com}}, {name: mine, csi: {driver: pod-fuse.example.com, volumeAttributes: {serves: data}}}]}`,
			`{containers: [{name: program, volumeMounts: [{name: mine, mountPath: /run/pod-fuse}, {name: mine, mountPath: /dev/fuse, subPath: fuse, readOnly: true},
      {name: mine, mountPath: /usr/bin/fusermount3, subPath: fusermount3, readOnly: true}, {name: mine, mountPath: /usr/bin/fusermount, subPath: fusermount, readOnly: true}]}],
      volumes: [{name: data, csi: {driver: pod-fuse.example.com}}, {name: mine, csi: {driver: pod-fuse.example.com, volumeAttributes: {serves: data}}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			const metadata = "apiVersion: v1\nkind: Pod\nmetadata: {annotations: {pod-fuse.example.com/serves: program=data}}\nspec: "
			got, want := text(t, p.stored(t, podOf(t, metadata+row.pod))), text(t, podOf(t, metadata+row.want))
			if got != want {
				t.Errorf("stored is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Pods get no program where the driver is being removed, and none is asked of an API server that
// has no such policy.
func TestPoliciesOfProgramsGoWithTheDriver(t *testing.T) {
	for _, flag := range []string{"podFuse.enabled=false", "podFuse.uninstall=true", "uninstall=true"} {
		if got := render(t, "--set", "podFuse.enabled=true", "-f", programsFile, "--set", flag); strings.Contains(got, "MutatingAdmissionPolicy") {
			t.Errorf("with %s, a policy is left", flag)
		}
	}
	if strings.Contains(render(t, "--set", "podFuse.enabled=true"), "AdmissionPolicy") {
		t.Error("without programs, there is a policy")
	}
}

// What kubectl apply sends for a pod that it has applied already, the order of its own volumes,
// changes nothing.
func TestABarePodIsAppliedAgain(t *testing.T) {
	pod := asks(map[string]string{"program": "bindfs", "source": "files"})
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	manifest, current := inJSON(t, pod), inJSON(t, programs(t, "").stored(t, pod))
	meta, err := strategicpatch.NewPatchMetaFromStruct(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(manifest, manifest, current, meta, true)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := strategicpatch.StrategicMergePatch(current, patch, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	var again corev1.Pod
	if err := json.Unmarshal(patched, &again); err != nil || text(t, &again) != text(t, programs(t, "").stored(t, pod)) {
		t.Errorf("%s makes of it %s, %v", patch, text(t, &again), err)
	}
}

func inJSON(t *testing.T, object any) []byte {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// What a list may not have, the chart refuses.
func TestListsThatAreRefused(t *testing.T) {
	for program, want := range map[string]string{
		"command: [x]":                                          "podFuse.programs.a.command: it has neither {} nor $(mountpoint): where would it mount?",
		"command: [x, '{}', $(b)]":                              "podFuse.programs.a.command: $(b) is neither in options nor in env",
		"command: [sh, -c, '$(o) {}']":                          `podFuse.programs.a.command: a shell would read what a pod writes: have "$o" in the place of $(o)`,
		"env: {O: $(o), P: $(O)}, command: [sh, -c, '{} $(P)']": "podFuse.programs.a.env.O: it has $(o), and the command or another variable has $(O): have $(o) there",
		"env: {O: 'x$(o)'}, command: [x, '{}', $(O)]":           "podFuse.programs.a.env.O: it has $(o), and the command or another variable has $(O): have $(o) there",
	} {
		values := valuesFile(t, "podFuse: {enabled: true, programs: {a: {image: i, options: [o], "+program+"}}}")
		if _, stderr, err := run("template", "x", chart, "-f", values); err == nil || !strings.Contains(stderr, want) {
			t.Errorf("%s: Helm: %v: %s", program, err, stderr)
		}
	}
}
