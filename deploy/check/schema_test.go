package check

import (
	"strings"
	"testing"
)

// Each has one value that would render to something, but not to what was meant.
func TestSchemaRefuses(t *testing.T) {
	for flag, names := range map[string]string{
		"diver=example.com/x":               "diver",
		"image.name=x":                      "name",
		"image.repository=":                 "repository",
		"image.pullPolicy=Sometimes":        "pullPolicy",
		"driver=pod-info-fuse":              "driver",
		"driver=example.com/../x":           "driver",
		"csi.enabled=1":                     "enabled",
		"csi.name=x":                        "name",
		"podFuse=true":                      "podFuse",
		"podFuse.enabled=yes":               "enabled",
		"podFuse.driver=pod-fuse":           "driver",
		"podFuse.uninstall=1":               "uninstall",
		"podFuse.metricsPort=0":             "metricsPort",
		"podFuse.port=9809":                 "port",
		"policies.podFuseNamespaces={,}":    "podFuseNamespaces",
		"kubeletDir=var/lib":                "kubeletDir",
		"pluginDir=relative":                "pluginDir",
		"config.logs=syslog":                "logs",
		"config.log=relative":               "log",
		"config.facts={pod.colour}":         "facts",
		"facts.Rack=x":                      "Rack",
		"factsFromLabels.a~b=x":             "a~b",
		"nodeNameFact=Name":                 "nodeNameFact",
		"updateStrategy.type=OnDelete":      "type",
		"updateStrategy.maxUnavailable=0":   "maxUnavailable",
		"uninstall=yes":                     "uninstall",
		"metrics.port=99999":                "port",
		"metrics.podMonitor.interval=7":     "interval",
		"metrics.prometheusRules=true":      "prometheusRules",
		"metrics.dashboard.enabled=1":       "enabled",
		"metrics.networkPolicy.from={any}":  "from",
		"policies.podSecurityPolicies=true": "podSecurityPolicies",
		"policies.otherDrivers={pod-info}":  "otherDrivers",
	} {
		_, stderr, err := run("template", "x", chart, "--set", flag)
		if err == nil {
			t.Errorf("--set %s is taken", flag)
		}
		if !strings.Contains(stderr, names) {
			t.Errorf("--set %s: the message does not name %s: %s", flag, names, stderr)
		}
	}
}

// What can be said, and cannot be had.
func TestTheChartRefuses(t *testing.T) {
	for flag, want := range map[string]string{
		"flexVolume.enabled=false":                                                                    "both false",
		"podFuse.enabled=true,podFuse.driver=example.com/pod-info-fuse":                               "name of the first driver",
		"podFuse.enabled=true,podFuse.metricsPort=9808":                                               "in the same pod",
		"podFuse.enabled=true,podFuse.driver=example.com/x_y,policies.validatingAdmissionPolicy=true": "no DNS name",
		"csi.enabled=true,driver=example.com/pod_info":                                                "no DNS name",
		"csi.enabled=true,driver=Example.com/pod-info":                                                "no DNS name",
		"csi.enabled=true,driver=" + strings.Repeat("x", 40) + ".com/" + strings.Repeat("y", 20):      "no DNS name",
	} {
		_, stderr, err := run("template", "x", chart, "--set", flag)
		if err == nil || !strings.Contains(stderr, want) {
			t.Errorf("--set %s: %v: %s, want %q", flag, err, stderr, want)
		}
	}
}
