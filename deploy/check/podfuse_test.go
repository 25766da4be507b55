package check

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// An API server that has one DaemonSet, and nothing else.
func fakeServer(t *testing.T, has *appsv1.DaemonSet) (address string) {
	t.Helper()
	answers := map[string]any{
		"/version": map[string]string{"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
		"/api":     metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis":    metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}},
		"/apis/apps/v1": metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "apps/v1",
			APIResources: []metav1.APIResource{{Name: "daemonsets", Kind: "DaemonSet", Namespaced: true}}},
		"/apis/apps/v1/namespaces/" + has.Namespace + "/daemonsets/" + has.Name: has,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, found := answers[r.URL.Path]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Nobody would look after a driver that stays on the nodes without a word: it has to be
// removed from them first.
func TestPodFuseIsRemovedBeforeItIsDisabled(t *testing.T) {
	const word = "podFuse.uninstall=true"
	for manifest, flags := range map[string]map[string]string{
		"../pod-fuse.yaml": {
			"podFuse.enabled=false":                       word,
			"podFuse.enabled=false,uninstall=true":        word,
			"podFuse.enabled=true":                        "",
			"podFuse.enabled=true,podFuse.uninstall=true": "",
			"podFuse.uninstall=true":                      "",
			"podFuse.enabled=true,uninstall=true":         "",
		},
		"../uninstall-pod-fuse.yaml": {"podFuse.enabled=false": "", "podFuse.enabled=true": ""},
		"../pod-info-fuse.yaml":      {"podFuse.enabled=false": "", "podFuse.enabled=true": ""},
	} {
		there := only[*appsv1.DaemonSet](t, decode(t, read(t, manifest)))
		server := fakeServer(t, there)
		for flag, want := range flags {
			_, stderr, err := run("template", "pod-info-fuse", chart, "--namespace", "pod-info-fuse",
				"--dry-run=server", "--kube-apiserver", server, "--set", flag)
			if (err != nil) != (want != "") || !strings.Contains(stderr, want) {
				t.Errorf("after %s, --set %s: %v: %s, want %q", manifest, flag, err, stderr, want)
			}
		}
	}
}

// One driver is removed, and the other one is what it is without it.
func TestPodFuseIsRemovedAlone(t *testing.T) {
	set := only[*appsv1.DaemonSet](t, decode(t, read(t, "../uninstall-pod-fuse.yaml")))
	pod := set.Spec.Template.Spec
	if args := container(t, pod, "pod-fuse").Args; args[0] != "uninstall" {
		t.Errorf("pod-fuse: %v", args)
	}
	without := container(t, only[*appsv1.DaemonSet](t, decode(t, read(t, "../pod-info-fuse.yaml"))).Spec.Template.Spec, "installer")
	if with := container(t, pod, "installer"); with.String() != without.String() {
		t.Errorf("pod-info-fuse: %v, want %v", with, without)
	}
	// A node with volumes in use gets ready late.
	if got := set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String(); got != "100%" {
		t.Errorf("%s of the nodes may be removing it at a time", got)
	}
}

// Each driver has its own name, port and program, and the kubelet asks each how it is.
func TestTheDriversOfANodeAreTwo(t *testing.T) {
	for _, file := range []string{"../pod-fuse.yaml", "../uninstall.yaml"} {
		pod := only[*appsv1.DaemonSet](t, decode(t, read(t, file))).Spec.Template.Spec
		for name, want := range map[string]struct{ program, driver, listen string }{
			"installer": {"/pod-info-fuse", "--driver=example.com/pod-info-fuse", "--listen=:9808"},
			"pod-fuse":  {"/pod-fuse", "--driver=example.com/pod-fuse", "--listen=:9809"},
		} {
			c := container(t, pod, name)
			if !slices.Equal(c.Command, []string{want.program}) || !slices.Contains(c.Args, want.driver) || !slices.Contains(c.Args, want.listen) {
				t.Errorf("%s, %s: %v %v, want %v", file, name, c.Command, c.Args, want)
			}
			if port := fmt.Sprintf("--listen=:%d", c.Ports[0].ContainerPort); port != want.listen {
				t.Errorf("%s, %s: its port is %s, want %s", file, name, port, want.listen)
			}
			for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
				if asked := probe.HTTPGet.Port.StrVal; asked != c.Ports[0].Name {
					t.Errorf("%s, %s: is asked on port %q, has %q", file, name, asked, c.Ports[0].Name)
				}
			}
		}
	}
}

// An example's two volumes belong together, and its program gets what the driver has for it.
func TestExampleOfPodFuse(t *testing.T) {
	objects := decode(t, read(t, "../examples/pod-fuse.yaml"))
	program := checkExample(t, objects, map[string]string{"/run/pod-fuse": "", "/dev/fuse": "fuse", "/usr/bin/fusermount3": "fusermount3"})
	assertHasAName(t, objects, program)
}

func TestDemoOfPodFuse(t *testing.T) {
	objects := decode(t, read(t, "../examples/pod-fuse-demo.yaml"))
	checkExample(t, objects, map[string]string{"/run/pod-fuse": ""})
	pod := only[*corev1.Pod](t, objects)
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if c.Image != "busybox" {
			t.Errorf("%s has the image %s", c.Name, c.Image)
		}
	}
}

// checkExample returns the program's container of an example, which has to have some mounts of the
// server volume.
func checkExample(t *testing.T, objects []runtime.Object, mounts map[string]string) (program corev1.Container) {
	t.Helper()
	pod := only[*corev1.Pod](t, objects)
	var client, server string
	for _, volume := range pod.Spec.Volumes {
		if volume.FlexVolume == nil {
			continue
		}
		if volume.FlexVolume.Driver != "example.com/pod-fuse" {
			t.Errorf("volume %s is of %s", volume.Name, volume.FlexVolume.Driver)
		}
		if serves, found := volume.FlexVolume.Options["serves"]; found {
			server = volume.Name + " serves " + serves
		} else {
			client = volume.Name
		}
	}
	if want := client + "-server serves " + client; client == "" || server != want {
		t.Errorf("volume %q, and %q", client, server)
	}
	program = pod.Spec.InitContainers[0]
	got := map[string]string{}
	for _, mount := range program.VolumeMounts {
		if mount.Name == client+"-server" {
			got[mount.MountPath] = mount.SubPath
		}
	}
	for path, sub := range mounts {
		if have, found := got[path]; !found || have != sub {
			t.Errorf("%s is %q of the volume (%v), want %q", path, have, found, sub)
		}
	}
	if *program.RestartPolicy != corev1.ContainerRestartPolicyAlways || program.SecurityContext == nil || program.SecurityContext.Privileged != nil {
		t.Errorf("the program is no unprivileged sidecar: %+v", program)
	}
	for _, reader := range pod.Spec.Containers {
		if reader.VolumeMounts[0].Name != client {
			t.Errorf("%s mounts %v", reader.Name, reader.VolumeMounts)
		}
	}
	return program
}

// assertHasAName checks that the user of a pod's container has a name, whatever the image has: ssh
// ends with "No user exists for uid 1000" otherwise.
func assertHasAName(t *testing.T, objects []runtime.Object, c corev1.Container) {
	t.Helper()
	pod, passwd := only[*corev1.Pod](t, objects), only[*corev1.ConfigMap](t, objects)
	user := fmt.Sprintf(":x:%d:%d:", *pod.Spec.SecurityContext.RunAsUser, *pod.Spec.SecurityContext.FSGroup)
	if !strings.Contains(passwd.Data["passwd"], user) {
		t.Errorf("no user has %q in %q", user, passwd.Data["passwd"])
	}
	for _, volume := range pod.Spec.Volumes {
		for _, mount := range c.VolumeMounts {
			if volume.ConfigMap != nil && volume.ConfigMap.Name == passwd.Name && mount.Name == volume.Name &&
				mount.MountPath == "/etc/passwd" && mount.SubPath == "passwd" {
				return
			}
		}
	}
	t.Errorf("%s has not got the file", c.Name)
}
