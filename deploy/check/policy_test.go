package check

import (
	"bytes"
	"context"
	"os/exec"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// programPolicies are the two policies of programs, compiled as the oldest API server that has them
// does (kubernetes v1.36, plugin/policy/mutating/compilation.go and validating/plugin.go): 1.36
// takes what 1.35 understands.
type programPolicies struct {
	variables *cel.CompositedCompiler // of the mutating one
	matcher   matchconditions.Matcher
	patcher   patch.Patcher
	validator validating.Validator
	values    []string // of the chart: files for pod-fuse inject
}

func compile(t *testing.T, manifest []byte) programPolicies {
	t.Helper()
	objects := decode(t, manifest)
	mutating, validates := only[*admissionv1.MutatingAdmissionPolicy](t, objects), only[*admissionv1.ValidatingAdmissionPolicy](t, objects)
	if bound := only[*admissionv1.MutatingAdmissionPolicyBinding](t, objects).Spec.PolicyName; bound != mutating.Name {
		t.Errorf("bound is %s", bound)
	}
	if bound := only[*admissionv1.ValidatingAdmissionPolicyBinding](t, objects).Spec; bound.PolicyName != validates.Name || bound.ValidationActions[0] != admissionv1.Deny {
		t.Errorf("bound is %v", bound)
	}
	if n := len(mutating.Spec.Mutations); n != 1 {
		t.Fatalf("%d mutations", n)
	}
	declared := cel.OptionalVariableDeclarations{}
	compiler := compilerWith(t, mutating.Spec.Variables, declared)
	p := programPolicies{variables: compiler}
	p.matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions(mutating.Spec.MatchConditions), declared, environment.NewExpressions), mutating.Spec.FailurePolicy, "policy", "validate", mutating.Name)
	declared.HasPatchTypes = true
	evaluator := compiler.CompileMutatingEvaluator(&patch.JSONPatchCondition{Expression: mutating.Spec.Mutations[0].JSONPatch.Expression}, declared, environment.NewExpressions)
	for _, err := range evaluator.CompilationErrors() {
		t.Fatal(err)
	}
	p.patcher = patch.NewJSONPatcher(evaluator)

	declared.HasPatchTypes = false
	compiler = compilerWith(t, validates.Spec.Variables, declared)
	var validations, messages []cel.ExpressionAccessor
	for _, v := range validates.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
	}
	compiled := func(accessors []cel.ExpressionAccessor) cel.ConditionEvaluator {
		evaluator := compiler.CompileCondition(accessors, declared, environment.NewExpressions)
		for _, err := range evaluator.CompilationErrors() {
			t.Fatal(err)
		}
		return evaluator
	}
	matcher := matchconditions.NewMatcher(compiled(conditions(validates.Spec.MatchConditions)), validates.Spec.FailurePolicy, "policy", "validate", validates.Name)
	p.validator = validating.NewValidator(compiled(validations), matcher, compiled(nil), compiled(messages), validates.Spec.FailurePolicy, nil)
	return p
}

// compilerWith compiles a policy's variables.
func compilerWith(t *testing.T, variables []admissionv1.Variable, declared cel.OptionalVariableDeclarations) *cel.CompositedCompiler {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 35)))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		if result := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, declared, environment.NewExpressions); result.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, result.Error)
		}
	}
	return compiler
}

func conditions(of []admissionv1.MatchCondition) (accessors []cel.ExpressionAccessor) {
	for i := range of {
		accessors = append(accessors, (*matchconditions.MatchCondition)(&of[i]))
	}
	return accessors
}

// admit is a pod as it is stored, and the messages with which it is refused. pod-fuse inject makes
// the same of a pod that is not refused.
func (p programPolicies) admit(t *testing.T, pod *corev1.Pod) (stored *corev1.Pod, refusals []string) {
	t.Helper()
	if stored, refusals = p.byPolicy(t, pod); len(refusals) > 0 {
		return stored, refusals
	}
	pod = pod.DeepCopy()
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	for form, manifest := range map[string][]byte{"YAML": []byte(text(t, pod)), "JSON": inJSON(t, pod)} {
		if got, want := text(t, podOf(t, p.inject(t, manifest))), text(t, stored); got != want {
			t.Errorf("pod-fuse inject makes of %s\n%s\nand the policy\n%s", form, got, want)
		}
	}
	return stored, refusals
}

// inject is what pod-fuse inject prints of a pod.
func (p programPolicies) inject(t *testing.T, manifest []byte) string {
	t.Helper()
	args := []string{"inject", "-f", "-"}
	for _, file := range p.values {
		args = append(args, "--programs", file)
	}
	var stdout, stderr bytes.Buffer
	command := exec.Command("../../bin/pod-fuse", args...)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(manifest), &stdout, &stderr
	if err := command.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("pod-fuse inject: %v: %s", err, &stderr)
	}
	return stdout.String()
}

// byPolicy is what the API server makes of a pod.
func (p programPolicies) byPolicy(t *testing.T, pod *corev1.Pod) (stored *corev1.Pod, refusals []string) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kind, resource := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	pod = pod.DeepCopy()
	pod.SetGroupVersionKind(kind)
	interfaces := admission.NewObjectInterfacesFromScheme(scheme)
	attributes := func(of *corev1.Pod) *admission.VersionedAttributes {
		record := admission.NewAttributesRecord(of, nil, kind, "default", of.Name, resource, "", admission.Create, &metav1.CreateOptions{}, false, nil)
		versioned, err := admission.NewVersionedAttributes(record, kind, interfaces)
		if err != nil {
			t.Fatal(err)
		}
		return versioned
	}
	ctx := context.Background()
	versioned := attributes(pod)
	match := p.matcher.Match(ctx, versioned, nil, nil)
	if match.Error != nil {
		t.Fatal(match.Error)
	}
	if match.Matches {
		object, err := p.patcher.Patch(p.variables.CreateContext(ctx), patch.Request{MatchedResource: resource, VersionedAttributes: versioned, ObjectInterfaces: interfaces}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			t.Fatal(err)
		}
		pod = object.(*corev1.Pod)
	}
	for _, decision := range p.validator.Validate(ctx, resource, attributes(pod), nil, nil, celconfig.RuntimeCELCostBudget, nil).Decisions {
		if decision.Action != validating.ActionAdmit {
			refusals = append(refusals, decision.Message)
		}
	}
	return pod, refusals
}
