package check

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// A policy that nothing binds denies nothing, and one that fails open may as well.
func TestAdmissionPoliciesDeny(t *testing.T) {
	for file, want := range map[string][]string{
		"validating-admission-policy.yaml":          {"persistentvolumes", "pods"},
		"validating-admission-policy-csi.yaml":      {"persistentvolumes", "pods", "pods"},
		"validating-admission-policy-pod-fuse.yaml": {"persistentvolumes", "pods", "pods", "pods"},
	} {
		t.Run(file, func(t *testing.T) { assertDenies(t, "../policies/"+file, want) })
	}
}

// assertDenies checks that each policy of a file is in force, and of which resources they are.
func assertDenies(t *testing.T, file string, want []string) {
	t.Helper()
	policies := make(map[string]*admissionv1.ValidatingAdmissionPolicy)
	bound := make(map[string]bool)
	for _, object := range decode(t, read(t, file)) {
		switch object := object.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			policies[object.Name] = object
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			bound[object.Spec.PolicyName] = slices.Contains(object.Spec.ValidationActions, admissionv1.Deny)
		}
	}
	var resources []string
	for name, policy := range policies {
		if !bound[name] || *policy.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("%s does not deny: bound %v, failure policy %v", name, bound[name], *policy.Spec.FailurePolicy)
		}
		for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
			resources = append(resources, rule.Resources...)
		}
	}
	slices.Sort(resources)
	if !slices.Equal(resources, want) {
		t.Errorf("%v are checked, want %v", resources, want)
	}
}
