package check

import (
	"strings"
	"testing"
)

// Each has one value that would render to something, but not to what was meant.
func TestSchemaRefuses(t *testing.T) {
	for flag, names := range map[string]string{
		"diver=example.com/x":                                 "diver",
		"image.name=x":                                        "name",
		"image.repository=":                                   "repository",
		"image.pullPolicy=Sometimes":                          "pullPolicy",
		"driver=pod-info-fuse":                                "driver",
		"driver=example.com/../x":                             "driver",
		"csi.enabled=1":                                       "enabled",
		"csi.name=x":                                          "name",
		"podFuse=true":                                        "podFuse",
		"podFuse.enabled=yes":                                 "enabled",
		"podFuse.driver=pod-fuse":                             "driver",
		"podFuse.uninstall=1":                                 "uninstall",
		"podFuse.servesAnnotation=1":                          "servesAnnotation",
		"podFuse.programs.a_b.image=x":                        "a_b",
		"podFuse.programs.a.image=x":                          "command",
		"podFuse.programs.a.command={x}":                      "image",
		"podFuse.metricsPort=0":                               "metricsPort",
		"podFuse.port=9809":                                   "port",
		"policies.podFuseNamespaces={,}":                      "podFuseNamespaces",
		"kubeletDir=var/lib":                                  "kubeletDir",
		"pluginDir=relative":                                  "pluginDir",
		"config.logs=syslog":                                  "logs",
		"config.log=relative":                                 "log",
		"config.facts={pod.colour}":                           "facts",
		"facts.Rack=x":                                        "Rack",
		"factsFromLabels.a~b=x":                               "a~b",
		"nodeNameFact=Name":                                   "nodeNameFact",
		"updateStrategy.type=Recreate":                        "type",
		"updateStrategy.maxUnavailable=0":                     "maxUnavailable",
		"updateStrategy.rollingUpdate.maxUnavailable=0%":      "maxUnavailable",
		"updateStrategy.rollingUpdate.maxSurge=1":             "maxSurge",
		"global.imageRegistry=https://x":                      "imageRegistry",
		"image.registry=x/":                                   "registry",
		"image.digest=sha256:01":                              "digest",
		"imagePullSecrets={mine}":                             "imagePullSecrets",
		"imagePullSecrets[0].nam=mine":                        "nam",
		"commonLabels.a=b c":                                  "commonLabels",
		"commonLabels.a=1":                                    "commonLabels",
		"commonLabels.-a=b":                                   "-a",
		`commonLabels.helm\.sh/chart=x`:                       "helm.sh/chart",
		`podLabels.app\.kubernetes\.io/name=x`:                "app.kubernetes.io/name",
		`commonLabels.pod-security\.kubernetes\.io/enforce=x`: "pod-security.kubernetes.io/enforce",
		"podAnnotations.a=1":                                  "podAnnotations",
		"nameOverride=Mine":                                   "nameOverride",
		"fullnameOverride=" + strings.Repeat("x", 41):         "fullnameOverride",
		"serviceAccount.create=yes":                           "create",
		"serviceAccount.name=a_b":                             "name",
		"serviceAccount.annotation.a=b":                       "annotation",
		"serviceAccount.annotations.a b=c":                    "a b",
		"logFormat=xml":                                       "logFormat",
		"uninstall=yes":                                       "uninstall",
		"metrics.port=99999":                                  "port",
		"metrics.podMonitor.interval=7":                       "interval",
		"metrics.prometheusRules=true":                        "prometheusRules",
		"metrics.dashboard.enabled=1":                         "enabled",
		"metrics.networkPolicy.from={any}":                    "from",
		"policies.podSecurityPolicies=true":                   "podSecurityPolicies",
		"policies.otherDrivers={pod-info}":                    "otherDrivers",
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

// One mutation a row of a program that is taken.
func TestSchemaRefusesPrograms(t *testing.T) {
	set := func(more string) (stderr string, err error) {
		_, stderr, err = run("template", "x", chart, "--set", "podFuse.enabled=true,podFuse.programs.a.image=x,podFuse.programs.a.command={x,$(mountpoint)}"+more)
		return stderr, err
	}
	if stderr, err := set(""); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	for more, names := range map[string]string{
		"imag=x":               "imag",
		"image=":               "image",
		"command[0]=1":         "command",
		"env.A-B=x":            "A-B",
		"env.A=1":              "env",
		"env.mountpoint=x":     "mountpoint",
		"options={Bucket}":     "options",
		"options={my-bucket}":  "options",
		"options={wait}":       "options",
		"options={secret}":     "options",
		"options={b,b}":        "options",
		"secret.key=x":         "key",
		"secret.mountPath=x":   "mountPath",
		"secret.mode=0999":     "mode",
		"source.readOnly=true": "mountPath",
		"source.mountPath=a:b": "mountPath",
		"resources=64Mi":       "resources",
	} {
		stderr, err := set(",podFuse.programs.a." + more)
		if err == nil || !strings.Contains(stderr, names) || !strings.Contains(stderr, "values.schema.json") && !strings.Contains(stderr, "schema(s)") {
			t.Errorf("%s: %v: %s, want %q", more, err, stderr, names)
		}
	}
}

// What can be said, and cannot be had.
func TestTheChartRefuses(t *testing.T) {
	for flag, want := range map[string]string{
		"flexVolume.enabled=false":                                                                                                                                         "both false",
		"podFuse.enabled=true,podFuse.driver=example.com/pod-info-fuse":                                                                                                    "name of the first driver",
		"podFuse.enabled=true,podFuse.metricsPort=9808":                                                                                                                    "in the same pod",
		"podFuse.enabled=true,podFuse.driver=example.com/x_y,policies.validatingAdmissionPolicy=true":                                                                      "no DNS name",
		"podFuse.enabled=true,podFuse.programs.a.image=x,podFuse.programs.a.command={x}":                                                                                   "it has neither {} nor $(mountpoint)",
		"podFuse.enabled=true,podFuse.programs.a.image=x,podFuse.programs.a.command={x,$(mountpoint),$(b)}":                                                                "$(b) is neither in options nor in env",
		"podFuse.enabled=true,podFuse.programs.a.image=x,podFuse.programs.a.command={/bin/sh,-ec,x $(b) $(mountpoint)},podFuse.programs.a.options={b}":                     `have "$b" in the place of $(b)`,
		"podFuse.enabled=true,podFuse.programs.a.image=x,podFuse.programs.a.command={tini,--,bash,-cx,x $(b) $(mountpoint)},podFuse.programs.a.options={b}":                `have "$b" in the place of $(b)`,
		"podFuse.enabled=true,podFuse.programs.a.image=x,podFuse.programs.a.command={x,$(O),$(mountpoint)},podFuse.programs.a.options={b},podFuse.programs.a.env.O=a=$(b)": "podFuse.programs.a.env.O: it has $(b)",
		"csi.enabled=true,driver=example.com/pod_info":                                                                                                                     "no DNS name",
		"csi.enabled=true,driver=Example.com/pod-info":                                                                                                                     "no DNS name",
		"csi.enabled=true,driver=" + strings.Repeat("x", 40) + ".com/" + strings.Repeat("y", 20):                                                                           "no DNS name",
	} {
		_, stderr, err := run("template", "x", chart, "--set", flag)
		if err == nil || !strings.Contains(stderr, want) {
			t.Errorf("--set %s: %v: %s, want %q", flag, err, stderr, want)
		}
	}
}
