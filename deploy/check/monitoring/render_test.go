package monitoring

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// all switches everything on that this module checks.
const all = "metrics.podMonitor.enabled=true,metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true,metrics.networkPolicy.enabled=true,podFuse.enabled=true"

// render is the chart with values, as Helm takes them.
func render(t *testing.T, values string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("../../../bin/helm", "template", "pod-info-fuse", "../../chart/pod-info-fuse", "--namespace", "pod-info-fuse", "--set", values)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("helm template --set %s: %v: %s", values, err, &stderr)
	}
	return stdout.Bytes()
}

// object decodes the one object of a kind in a manifest, and refuses fields that it does not have.
func object[T any](t *testing.T, manifest []byte, kind string) (o T) {
	t.Helper()
	found := 0
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest))); ; {
		document, err := documents.Read()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(document, []byte("\nkind: "+kind+"\n")) {
			continue
		}
		found++
		if err := yaml.UnmarshalStrict(document, &o); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
	}
	if found != 1 {
		t.Fatalf("%d objects of kind %s, want 1", found, kind)
	}
	return o
}

// The operator takes them, and they select the pods of the DaemonSet, by ports that its containers
// name.
func TestObjectsAreThoseOfTheOperator(t *testing.T) {
	manifest := render(t, all)
	for _, pod := range []string{"\n      containers:\n", "\n            - name: metrics\n              containerPort: 9808\n", "\n            - name: pod-fuse\n              containerPort: 9809\n"} {
		if !bytes.Contains(manifest, []byte(pod)) {
			t.Errorf("there is no %q", pod)
		}
	}
	monitor := object[monitoringv1.PodMonitor](t, manifest, "PodMonitor")
	policy := object[networkingv1.NetworkPolicy](t, manifest, "NetworkPolicy")
	want := map[string]string{"app.kubernetes.io/name": "pod-info-fuse", "app.kubernetes.io/instance": "pod-info-fuse"}
	for name, selector := range map[string]map[string]string{"PodMonitor": monitor.Spec.Selector.MatchLabels, "NetworkPolicy": policy.Spec.PodSelector.MatchLabels} {
		if len(selector) != 2 || selector["app.kubernetes.io/name"] != want["app.kubernetes.io/name"] || selector["app.kubernetes.io/instance"] != want["app.kubernetes.io/instance"] {
			t.Errorf("%s selects %v", name, selector)
		}
	}
	if ends := monitor.Spec.PodMetricsEndpoints; len(ends) != 2 || *ends[0].Port != "metrics" || *ends[1].Port != "pod-fuse" {
		t.Errorf("the PodMonitor asks %+v", ends)
	}
	if object[monitoringv1.PrometheusRule](t, manifest, "PrometheusRule").Namespace != "pod-info-fuse" {
		t.Error("the rules are in another namespace")
	}
	if ports := policy.Spec.Ingress[0].Ports; len(policy.Spec.Ingress) != 1 || len(ports) != 2 || ports[0].Port.IntValue() != 9808 || ports[1].Port.IntValue() != 9809 ||
		len(policy.Spec.Egress) != 0 || len(policy.Spec.PolicyTypes) != 2 || len(policy.Spec.Ingress[0].From) != 1 {
		t.Errorf("the NetworkPolicy is %+v", policy.Spec)
	}
}

// A list of peers that is empty would let everybody pass (networking.k8s.io/v1,
// NetworkPolicyIngressRule).
func TestNoPeersAreNobody(t *testing.T) {
	policy := object[networkingv1.NetworkPolicy](t, render(t, "metrics.networkPolicy.enabled=true,metrics.networkPolicy.from=null"), "NetworkPolicy")
	if len(policy.Spec.Ingress) != 0 {
		t.Errorf("%+v may pass", policy.Spec.Ingress)
	}
}

func TestNothingOfItIsThereByDefault(t *testing.T) {
	manifest := string(render(t, "driver=example.com/pod-info-fuse"))
	for _, kind := range []string{"PodMonitor", "PrometheusRule", "ConfigMap", "NetworkPolicy"} {
		if strings.Contains(manifest, "\nkind: "+kind+"\n") {
			t.Errorf("there is a %s", kind)
		}
	}
	if strings.Contains(string(render(t, "metrics.prometheusRule.enabled=true")), "PodFuse") {
		t.Error("there are alerts of pod-fuse, which is not installed")
	}
}

// dashboardOf is the JSON in the ConfigMap.
func dashboardOf(t *testing.T) []byte {
	t.Helper()
	return []byte(object[corev1.ConfigMap](t, render(t, all), "ConfigMap").Data["pod-info-fuse.json"])
}
