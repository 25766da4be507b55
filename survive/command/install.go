package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/survive"
)

// kubelets is the value of --close-flexvolume without one: what the kubelet says.
const kubelets = "kubelet"

// install installs this binary as the driver, and with --watch keeps it installed.
func (p Program) install(args []string) error {
	i := p.installer("install")
	configFile := i.set.String("config", "", "`FILE` to install as config.json; without it, the one that is there stays")
	closeFlex := i.set.String("close-flexvolume", "", "with --watch and --plugin-dir: the driver is for CSI only; remove it from `DIR`, where the kubelet looks for FlexVolume drivers, as soon as none of its FlexVolumes is mounted, and keep it the same until then; without =DIR, from where it would be installed without --plugin-dir")
	i.set.Lookup("close-flexvolume").NoOptDefVal = kubelets
	rollback := i.set.Bool("rollback", false, "install the version before the present one")
	delivery := func(flex.Name, survive.Settings) error { return nil }
	if p.Deliver != nil {
		delivery = p.Deliver(i.set)
	}
	if err := i.parse(args); err != nil {
		return err
	}
	var other error
	i.set.Visit(func(f *pflag.Flag) {
		if *rollback && !slices.Contains([]string{"rollback", "driver", "plugin-dir", "root"}, f.Name) {
			other = fmt.Errorf("--rollback does not go with --%s", f.Name)
		}
	})
	if i.set.Changed("close-flexvolume") {
		switch {
		case *closeFlex == "":
			other = errors.New("--close-flexvolume is empty")
		case !i.watch || i.pluginDir == "":
			other = errors.New("--close-flexvolume goes with --watch and --plugin-dir")
		}
	}
	if other != nil {
		return p.UsageError(other)
	}
	configuration, err := openSource(*configFile)
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
		return delivery(target.Driver, settings)
	}
	switch {
	case *rollback:
		if err := errors.Join(target.Rollback(), p.silent(target).RefuseNew(false)); err != nil {
			return err
		}
		fmt.Printf("%s is the version before again (%s)\n", target.Binary(), why)
		return nil
	case i.watch:
		i.log("version %s is to be %s (%s)", p.Version, target.Binary(), why)
		keeper := &install.Keeper{
			Target: target, Binary: i.binary, Config: configuration, Log: i.log,
			Node: p.silent(target), Deliver: deliver, Due: func() bool { return p.inputDue(target) || p.silent(target).CompanionDue() },
		}
		if *closeFlex != "" {
			former := target
			if *closeFlex == kubelets {
				former.PluginDir, _, err = install.FindPluginDir()
			} else {
				former.PluginDir, err = filepath.Abs(*closeFlex)
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
	fmt.Printf("version %s %s %s (%s)\n", p.Version, what, target.Binary(), why)
	return errors.Join(err, p.silent(target).RefuseNew(false), deliver())
}

// silent is the installation in a place, without its configuration and its log.
func (p Program) silent(t install.Target) survive.Node {
	return p.NodeFor(t.Driver, survive.Settings{Log: "off"})
}

// inputDue tells whether the driver, when it is called, gives the processes that serve
// another input. Where the configuration cannot be read, the right one is not known.
func (p Program) inputDue(t install.Target) bool {
	settings, err := p.settingsIn(t.Dir())
	settings.Log = "off"
	_, due := p.NodeFor(t.Driver, settings).InputStale()
	return err == nil && due
}

// uninstall removes the driver from the node, or with --watch as soon as its
// volumes are gone.
func (p Program) uninstall(args []string) error {
	i := p.installer("uninstall")
	force := i.set.Bool("force", false, "unmount volumes that are in use; pods that use them read errors from then on")
	kubeletDir := i.set.String("kubelet-dir", install.DefaultKubeletDir, "the kubelet's own `DIR`, where a CSI plugin of the driver has its sockets, and may have the driver")
	if err := i.parse(args); err != nil {
		return err
	}
	target, why, err := i.enter()
	if err != nil {
		return err
	}
	target.KubeletDir = *kubeletDir
	remove := func() error { return target.Uninstall(i.binary, *force) }
	if !i.watch {
		return remove()
	}
	i.log("%s is to be removed (%s)", target.Dir(), why)
	removed := false
	look := func() error {
		if removed {
			return target.CloseCSI() // the plugin may have begun only now
		}
		err := p.silent(target).RefuseNew(true)
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
