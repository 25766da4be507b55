package install

import (
	"strings"
	"testing"
)

// A node with one kubelet, whose configuration is a file.
var configured = map[string]string{
	"proc/1/cmdline":               cmdline("/sbin/init"),
	"proc/2/cmdline":               "", // a kernel thread
	"proc/812/cmdline":             cmdline("/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml", "--v=2"),
	"proc/900/cmdline":             cmdline("/usr/bin/containerd"),
	"var/lib/kubelet/config.yaml":  "kind: KubeletConfiguration\nvolumePluginDir: /file\nport: 10250\n",
	"etc/kubernetes/volumeplugins": "not a directory",
}

const file = "var/lib/kubelet/config.yaml"

func TestThePluginDirectoryIsTheRunningKubelets(t *testing.T) {
	kubelet := func(args ...string) string { return cmdline(append([]string{"/usr/bin/kubelet"}, args...)...) }
	for name, row := range map[string]struct {
		files     map[string]string
		dir, said string
	}{
		"a file":              {configured, "/file", "volumePluginDir in /var/lib/kubelet/config.yaml"},
		"in double quotes":    {with(configured, file, `volumePluginDir: "/file"`), "/file", "config.yaml"},
		"in single quotes":    {with(configured, file, `volumePluginDir: '/file'`), "/file", "config.yaml"},
		"with a comment":      {with(configured, file, "volumePluginDir: /file # as ever\n"), "/file", "config.yaml"},
		"JSON":                {with(configured, file, `{"kind": "KubeletConfiguration", "volumePluginDir": "/file"}`), "/file", "config.yaml"},
		"a slash at its end":  {with(configured, file, "volumePluginDir: /file/\n"), "/file", "config.yaml"},
		"nothing in the file": {with(configured, file, "port: 10250\n"), defaultPluginDir, "process 812, sets no other"},
		"an empty file":       {with(configured, file, ""), defaultPluginDir, "sets no other"},
		"another key's value": {with(configured, file, "staticPodPath: 'volumePluginDir: /x'\n"), defaultPluginDir, "sets no other"},
		"of another key":      {with(configured, file, "x:\n  volumePluginDir: /x\n"), defaultPluginDir, "sets no other"},
		"no flags":            {with(configured, "proc/812/cmdline", kubelet()), defaultPluginDir, "sets no other"},

		"a flag": {with(configured, "proc/812/cmdline", kubelet("--volume-plugin-dir=/flag")),
			"/flag", "--volume-plugin-dir of the kubelet, process 812"},
		"a flag and a space": {with(configured, "proc/812/cmdline", kubelet("--volume-plugin-dir", "/flag", "-v", "2")), "/flag", "process 812"},
		"a flag before the file": {with(configured, "proc/812/cmdline", kubelet("--config=/var/lib/kubelet/config.yaml", "--volume-plugin-dir=/flag")),
			"/flag", "--volume-plugin-dir"},
		"a flag twice":    {with(configured, "proc/812/cmdline", kubelet("--volume-plugin-dir=/x", "--volume-plugin-dir=/flag")), "/flag", ""},
		"a file as it is": {with(configured, "proc/812/cmdline", kubelet("--config", "/var/lib/kubelet/config.yaml")), "/file", ""},

		"a drop-in": {dropIns("10-a.conf", "volumePluginDir: /drop-in"), "/drop-in", "volumePluginDir in /etc/kubelet.d/10-a.conf"},
		"the last drop-in": {dropIns("10-a.conf", "volumePluginDir: /first", "20-b.conf", "volumePluginDir: /last",
			"30-c.conf", "port: 1"), "/last", "20-b.conf"},
		"a drop-in of another name": {dropIns("10-a.yaml", "volumePluginDir: /drop-in"), "/file", "config.yaml"},
		"a drop-in in a directory":  {dropIns("more/10-a.conf", "volumePluginDir: /drop-in"), "/drop-in", "more/10-a.conf"},
		"a link to a drop-in":       {dropIns("10-a.conf", "-> 10-a.yaml", "10-a.yaml", "volumePluginDir: /drop-in"), "/drop-in", "10-a.conf"},

		"two kubelets that agree": {with(configured, "proc/813/cmdline", kubelet("--volume-plugin-dir=/file/")), "/file", ""},
		"who looks for a kubelet": {with(configured, "proc/813/cmdline", cmdline("pgrep", "kubelet", "--volume-plugin-dir=/x")), "/file", ""},
		"a name that begins so":   {with(configured, "proc/813/cmdline", cmdline("/usr/bin/kubelet-wrapper", "--volume-plugin-dir=/x")), "/file", ""},
	} {
		dir, why, err := findPluginDir(tree(t, row.files))
		if err != nil || dir != row.dir || !strings.Contains(why, row.said) {
			t.Errorf("%s: %q, %q, %v; want %q, %q", name, dir, why, err, row.dir, row.said)
		}
	}
}

// dropIns is the same node with files in a directory for --config-dir.
func dropIns(files ...string) map[string]string {
	for i := 0; i < len(files); i += 2 {
		files[i] = "etc/kubelet.d/" + files[i]
	}
	return with(with(configured, "proc/812/cmdline",
		cmdline("kubelet", "--config-dir=/etc/kubelet.d", "--config=/var/lib/kubelet/config.yaml")), files...)
}
