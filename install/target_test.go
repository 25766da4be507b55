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

func TestAPlaceThatIsNoDriversIsRefusedAndStays(t *testing.T) {
	const dir = "exec/example.com~facts"
	good := map[string]string{dir + "/facts": version("0"), "elsewhere/facts": version("elsewhere"), "elsewhere/config.json": "{}"}
	for name, row := range map[string]struct {
		files map[string]string
		path  string
	}{
		"the directory is a link":    {map[string]string{dir: "-> ../elsewhere", "elsewhere/": ""}, dir},
		"the directory is a file":    {map[string]string{dir: "text"}, dir},
		"the binary is a link":       {with(good, dir+"/facts", "-> ../../elsewhere/facts"), dir + "/facts"},
		"the binary is a directory":  {map[string]string{dir + "/facts/": ""}, dir + "/facts"},
		"the binary is a dead link":  {with(good, dir+"/facts", "-> none"), dir + "/facts"},
		"config.json is a link":      {with(good, dir+"/config.json", "-> ../../elsewhere/config.json"), dir + "/config.json"},
		"config.json is a directory": {with(good, dir+"/config.json/", ""), dir + "/config.json"},
	} {
		target := newTarget(t, row.files)
		root := filepath.Dir(target.PluginDir)
		was := listing(t, root)
		c := content(t, version("1"))
		c.Config = []byte(`{"log":"off"}`)
		for operation, do := range map[string]func() error{
			"install":   func() error { _, err := target.Install(c); return err },
			"uninstall": func() error { return target.Uninstall(c.Binary, true) },
		} {
			err := do()
			if err == nil || !strings.Contains(err.Error(), filepath.Join(root, row.path)+" is not a ") || !strings.Contains(err.Error(), "remove it, or choose") {
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
	target := newTarget(t, map[string]string{"exec/": ""})
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
	if names := listing(t, target.PluginDir); len(names) > 1 {
		t.Errorf("left: %v", names)
	}
}
