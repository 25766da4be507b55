package command

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/internal/cli"
	"example.com/pod-info-fuse/survive"
)

// kubelets is the value of --close-flexvolume without one: what the kubelet says.
const kubelets = "kubelet"

// install installs this binary as the driver, and with --watch keeps it installed.
func (p Program) install(set *pflag.FlagSet) func([]string) error {
	i := installation{
		installer:  p.installer(set),
		configFile: set.String("config", "", "`FILE` to install as config.json; without it, the one that is there stays"),
		closeFlex:  set.String("close-flexvolume", "", "with --watch and --plugin-dir: the driver is for CSI only; remove it from `DIR`, where the kubelet looks for FlexVolume drivers, as soon as none of its FlexVolumes is mounted, and keep it the same until then; without =DIR, from where it would be installed without --plugin-dir"),
		delivery:   func(flex.Name, survive.Settings) error { return nil },
	}
	set.Lookup("close-flexvolume").NoOptDefVal = kubelets
	if p.Deliver != nil {
		i.delivery = p.Deliver(set)
	}
	return func([]string) error { return i.run(p) }
}

// installation is the command install, with its flags.
type installation struct {
	*installer
	configFile, closeFlex *string
	delivery              func(driver flex.Name, settings survive.Settings) error
}

func (i installation) run(p Program) error {
	if err := i.begin(); err != nil {
		return err
	}
	if i.set.Changed("close-flexvolume") {
		switch {
		case *i.closeFlex == "":
			return cli.Usage(errors.New("--close-flexvolume is empty"))
		case !i.watch || i.pluginDir == "":
			return cli.Usage(errors.New("--close-flexvolume goes with --watch and --plugin-dir"))
		}
	}
	configuration, err := openSource(*i.configFile)
	if err != nil {
		return err
	}
	target, why, err := i.enter()
	if err != nil {
		return err
	}
	deliver := func() error {
		settings, err := p.settingsIn(target.Dir())
		if err != nil {
			return fmt.Errorf("find out where to deliver: %w", err)
		}
		return i.delivery(target.Driver, settings)
	}
	if i.watch {
		i.log("version %s is to be %s (%s)", p.Version, target.Binary(), why)
		keeper := &install.Keeper{
			Target: target, Binary: i.binary, Config: configuration, Log: i.log,
			Node: p.silent(target), Deliver: deliver, Due: func() bool { return p.isDue(target) },
		}
		if *i.closeFlex != "" {
			former := target
			if *i.closeFlex == kubelets {
				former.PluginDir, _, err = install.FindPluginDir()
			} else {
				former.PluginDir, err = filepath.Abs(*i.closeFlex)
			}
			if err != nil {
				return err
			}
			if former.PluginDir != target.PluginDir {
				keeper.Former = &former
			}
		}
		return i.keep(keeper.Look, func() string { return p.keeperMetrics(keeper, i.log) })
	}
	content := install.Content{Binary: i.binary}
	if content.Config, err = configuration(); err != nil {
		return err
	}
	changed, err := target.Install(content)
	if err != nil && !changed {
		return err
	}
	what := "installed as"
	if !changed {
		what = "is installed already as"
	}
	_, told := fmt.Printf("version %s %s %s (%s)\n", p.Version, what, target.Binary(), why)
	return errors.Join(told, err, p.silent(target).Inside().RefuseNew(false), deliver())
}

// silent is the installation in a place, without its configuration and its log.
func (p Program) silent(t install.Target) survive.Node {
	return p.NodeFor(t.Driver, survive.Settings{Log: "off"})
}

// isDue tells whether the driver, when it is called, gives the processes that serve something
// else. Where the configuration cannot be read, what they should have is not known.
func (p Program) isDue(t install.Target) bool {
	settings, err := p.settingsIn(t.Dir())
	settings.Log = "off"
	return err == nil && p.NodeFor(t.Driver, settings).Inside().Due()
}

// uninstall removes the driver from the node, or with --watch as soon as its
// volumes are gone.
func (p Program) uninstall(set *pflag.FlagSet) func([]string) error {
	i := p.installer(set)
	force := set.Bool("force", false, "unmount volumes that are in use; pods that use them read errors from then on")
	kubeletDir := set.String("kubelet-dir", install.DefaultKubeletDir, "the kubelet's own `DIR`, where a CSI plugin of the driver has its sockets, and may have the driver")
	return func([]string) error { return i.uninstall(p, *kubeletDir, *force) }
}

func (i *installer) uninstall(p Program, kubeletDir string, force bool) error {
	if err := i.begin(); err != nil {
		return err
	}
	target, why, err := i.enter()
	if err != nil {
		return err
	}
	target.KubeletDir = kubeletDir
	remove := func() error { return target.Uninstall(i.binary, force) }
	if !i.watch {
		return remove()
	}
	i.log("%s is to be removed (%s)", target.Dir(), why)
	removed := false
	look := func() error {
		if removed {
			return target.CloseCSI() // the plugin may have begun only now
		}
		err := p.silent(target).Inside().RefuseNew(true)
		if err == nil {
			err = remove()
		}
		if err == nil {
			removed = true
			i.log("%s is removed", target.Dir())
		}
		return err
	}
	return i.keep(look, func() string { return p.nodeMetrics(p.silent(target), i.log) })
}
