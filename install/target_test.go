package install

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestADirectoryThatIsNoneIsRefusedAndStays(t *testing.T) {
	const dir = "exec/example.com~facts"
	for name, files := range map[string]map[string]string{
		"a link": {dir: "-> ../elsewhere", "elsewhere/facts": version("elsewhere"), "elsewhere/config.json": "{}"},
		"a file": {dir: "text"},
	} {
		target := newTarget(t, files)
		root := filepath.Dir(target.PluginDir)
		was := listing(t, root)
		c := content(t, version("1"))
		c.Config = []byte(`{"log":"off"}`)
		for operation, do := range map[string]func() error{
			"install":   func() error { _, err := target.Install(c); return err },
			"uninstall": func() error { return target.Uninstall(c.Binary, true) },
		} {
			err := do()
			if err == nil || !strings.Contains(err.Error(), filepath.Join(root, dir)+" is not a directory; remove it, or choose") {
				t.Errorf("%s: %s: %v", name, operation, err)
			}
			if now := listing(t, root); !maps.Equal(was, now) {
				t.Errorf("%s: %s: it was %v and is %v", name, operation, was, now)
			}
		}
	}
}

// Whoever may read the plugin directory can lock it.
func TestALockThatIsNeverReleased(t *testing.T) {
	defer func(was time.Duration) { lockTimeout = was }(lockTimeout)
	lockTimeout = 50 * time.Millisecond
	target := newTarget(t, map[string]string{"exec/.pod-info-fuse-another/": ""}) // it is being installed
	locked, err := os.Open(target.PluginDir)
	if err == nil {
		defer locked.Close()
		err = syscall.Flock(int(locked.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := content(t, version("1"))
	for operation, do := range map[string]func() error{
		"install":   func() error { _, err := target.Install(c); return err },
		"uninstall": func() error { return target.Uninstall(c.Binary, true) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "lock "+target.PluginDir+": another process holds it for too long; see who with fuser") {
			t.Errorf("%s: %v", operation, err)
		}
	}
	if names := listing(t, target.PluginDir); len(names) != 2 {
		t.Errorf("not what another installer has there: %v", names)
	}
}
