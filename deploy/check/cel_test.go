package check

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The labels of a namespace whose pods may run FUSE programs, and one whose pods may not be told
// about themselves.
var (
	mayFuse   = labels.Set{"pod-fuse.example.com/volumes": "allowed"}
	noPodInfo = labels.Set{"pod-info-fuse.example.com/volumes": "denied"}
)

// flexVolumes is a pod with a volume of each driver.
func flexVolumes(options map[string]string, drivers ...string) *corev1.Pod {
	pod := &corev1.Pod{}
	for _, driver := range drivers {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
			FlexVolume: &corev1.FlexVolumeSource{Driver: driver, Options: options},
		}})
	}
	return pod
}

func csiVolume(driver string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		CSI: &corev1.CSIVolumeSource{Driver: driver},
	}}}}}
}

func persistentVolume(driver string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: driver},
	}}}
}

func csiPersistentVolume(driver string, attributes map[string]string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "v", VolumeAttributes: attributes},
	}}}
}

// A namespace may be allowed either driver and not the other, whatever else its pods have.
func TestAdmissionPoliciesTellTheDriversApart(t *testing.T) {
	const (
		podInfo   = "example.com/pod-info-fuse"
		podFuse   = "example.com/pod-fuse"
		noFuse    = "Volumes of example.com/pod-fuse may not be used in this namespace. Ask the administrator to give the namespace the label pod-fuse.example.com/volumes=allowed."
		noInfo    = "Volumes of example.com/pod-info-fuse may not be used in this namespace. Ask the administrator to remove the namespace's label pod-info-fuse.example.com/volumes=denied."
		noOther   = "FlexVolume drivers that may be used here: example.com/pod-info-fuse, example.com/pod-fuse."
		noClaim   = "FlexVolume drivers that may be used here: example.com/pod-info-fuse."
		noServer  = "A persistent volume of pod-fuse.example.com cannot be a server volume"
		plainKeys = "Keys of FlexVolume options must be printable ASCII"
	)
	options := map[string]string{"serves": "v"}
	policies := policiesIn(t, "../policies/validating-admission-policy-pod-fuse.yaml")
	for name, row := range map[string]struct {
		namespace labels.Set
		object    any
		denied    string // what the message begins with; "" admitted
	}{
		"both, where both are allowed":        {mayFuse, flexVolumes(options, podInfo, podFuse), ""},
		"where nothing is said":               {nil, flexVolumes(options, podInfo, podFuse), noFuse},
		"where the label says something else": {labels.Set{"pod-fuse.example.com/volumes": "denied"}, flexVolumes(options, podInfo, podFuse), noFuse},
		"where the other driver's label is":   {labels.Set{"pod-info-fuse.example.com/volumes": "allowed"}, flexVolumes(options, podInfo, podFuse), noFuse},
		"pod-fuse, last of the volumes":       {nil, flexVolumes(options, podInfo, podInfo, podFuse), noFuse},
		"pod-info-fuse alone":                 {nil, flexVolumes(nil, podInfo), ""},
		"pod-info-fuse, where it is denied":   {labels.Merge(mayFuse, noPodInfo), flexVolumes(options, podInfo, podFuse), noInfo},
		"pod-fuse alone, there":               {labels.Merge(mayFuse, noPodInfo), flexVolumes(options, podFuse), ""},
		"pod-fuse, where neither is allowed":  {noPodInfo, flexVolumes(options, podFuse), noFuse},
		"another driver beside them":          {mayFuse, flexVolumes(options, podInfo, podFuse, "example.com/x"), noOther},
		"a driver that reads alike":           {mayFuse, flexVolumes(options, "example.com/Pod-fuse"), noOther},
		"a key that reads alike":              {mayFuse, flexVolumes(map[string]string{"ſerves": "v"}, podFuse), plainKeys},
		"a key with a space":                  {mayFuse, flexVolumes(map[string]string{"serves ": "v"}, podFuse), plainKeys},
		"pod-fuse by the other door":          {nil, csiVolume("pod-fuse.example.com"), noFuse},
		"the same, where it is allowed":       {mayFuse, csiVolume("pod-fuse.example.com"), ""},
		"pod-info-fuse by the other door":     {nil, csiVolume("pod-info-fuse.example.com"), ""},
		"the same, where it is denied":        {noPodInfo, csiVolume("pod-info-fuse.example.com"), noInfo},
		"no volumes, where nothing is said":   {nil, flexVolumes(nil), ""},
		"a persistent volume":                 {nil, persistentVolume(podInfo), ""},
		"a persistent volume of pod-fuse":     {nil, persistentVolume(podFuse), noClaim},
		"a persistent volume of another":      {nil, persistentVolume("example.com/x"), noClaim},
		"one by CSI":                          {nil, csiPersistentVolume("pod-info-fuse.example.com", map[string]string{"facts": "pod.name"}), ""},
		"one of pod-fuse by CSI":              {nil, csiPersistentVolume("pod-fuse.example.com", map[string]string{"wait": "5s"}), ""},
		"the same without attributes":         {nil, csiPersistentVolume("pod-fuse.example.com", nil), ""},
		"one that is a server volume":         {nil, csiPersistentVolume("pod-fuse.example.com", options), noServer},
		"one that another driver serves":      {nil, csiPersistentVolume("x.example.com", options), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := policies.refusals(t, row.object, row.namespace)
			if row.denied == "" && len(got) > 0 || row.denied != "" && (len(got) != 1 || !strings.HasPrefix(got[0], row.denied)) {
				t.Errorf("refused with %q, want %q", got, row.denied)
			}
		})
	}
}

// Where pod-fuse is not installed, its name is as good as any other.
func TestAdmissionPoliciesWithoutPodFuse(t *testing.T) {
	for file, denies := range map[string]int{"validating-admission-policy.yaml": 0, "validating-admission-policy-csi.yaml": 1} {
		policies := policiesIn(t, "../policies/"+file)
		if got := policies.refusals(t, flexVolumes(nil, "example.com/pod-fuse"), mayFuse); len(got) != 1 {
			t.Errorf("%s: a pod with pod-fuse is refused with %q", file, got)
		}
		if got := policies.refusals(t, flexVolumes(nil, "example.com/pod-info-fuse"), noPodInfo); len(got) != denies {
			t.Errorf("%s: a pod with pod-info-fuse is refused with %q", file, got)
		}
	}
}

// A pod that changes its door, as docs/csi.md says, is admitted as before: both doors lead to the
// same volume, and what a namespace is denied by one it is denied by the other.
func TestAdmissionPolicyIsTheSameForBothDoors(t *testing.T) {
	policies := policiesIn(t, "../policies/validating-admission-policy-csi.yaml")
	doors := map[string]*corev1.Pod{"CSI": csiVolume("pod-info-fuse.example.com"), "FlexVolume": flexVolumes(nil, "example.com/pod-info-fuse")}
	for door, pod := range doors {
		for _, namespace := range []labels.Set{nil, {"pod-info-fuse.example.com/volumes": "allowed"}} {
			if got := policies.refusals(t, pod, namespace); len(got) != 0 {
				t.Errorf("by %s, with labels %v, refused with %q", door, namespace, got)
			}
		}
		got := policies.refusals(t, pod, noPodInfo)
		if len(got) != 1 || !strings.HasPrefix(got[0], "Volumes of example.com/pod-info-fuse may not") {
			t.Errorf("by %s, with the label that denies it, refused with %q", door, got)
		}
	}
	if got := policies.refusals(t, csiVolume("x.example.com"), noPodInfo); len(got) != 0 {
		t.Errorf("another CSI driver is refused with %q", got)
	}
}

// boundPolicies are policies, each with its binding.
type boundPolicies map[*admissionv1.ValidatingAdmissionPolicy]*admissionv1.ValidatingAdmissionPolicyBinding

func policiesIn(t *testing.T, file string) boundPolicies {
	t.Helper()
	byName := make(map[string]*admissionv1.ValidatingAdmissionPolicy)
	bound := make(boundPolicies)
	for _, object := range decode(t, read(t, file)) { // the bindings come last
		switch object := object.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			byName[object.Name] = object
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			bound[byName[object.Spec.PolicyName]] = object
		}
	}
	return bound
}

// refusals are the messages with which an API server would refuse to create an object in a
// namespace with labels. What is in no namespace, a selector of namespaces does not let out.
func (p boundPolicies) refusals(t *testing.T, object any, namespace labels.Set) (messages []string) {
	t.Helper()
	resource := "pods"
	if _, ok := object.(*corev1.PersistentVolume); ok {
		resource = "persistentvolumes"
	}
	for policy, binding := range p {
		if !slices.Contains(policy.Spec.MatchConstraints.ResourceRules[0].Resources, resource) {
			continue
		}
		if match := binding.Spec.MatchResources; match != nil && resource == "pods" {
			selector, err := metav1.LabelSelectorAsSelector(match.NamespaceSelector)
			if err != nil {
				t.Fatal(err)
			}
			if !selector.Matches(namespace) {
				continue
			}
		}
		for _, validation := range policy.Spec.Validations {
			if !isTrue(t, validation.Expression, object) {
				messages = append(messages, validation.Message)
			}
		}
	}
	return messages
}

// isTrue evaluates an expression as API servers do, of an object as it is in JSON.
func isTrue(t *testing.T, expression string, object any) bool {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	environment, err := cel.NewEnv(cel.Variable("object", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := environment.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := environment.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(map[string]any{"object": plain})
	if err != nil {
		t.Fatalf("%s of %s: %v", expression, text, err)
	}
	return value.Value() == true
}
