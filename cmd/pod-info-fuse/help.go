package main

const usage = `pod-info-fuse is a FlexVolume driver that tells pods about themselves.

Call-outs, which the kubelet executes; each prints one JSON object:
  init               tell the driver's capabilities
  mount DIR JSON     mount a volume on DIR
  unmount DIR        unmount it

Commands, for people:
  install            put this binary into the kubelet's plugin directory, in the
                     place of the version before; --rollback undoes it, --watch
                     keeps it there; see install --help
  uninstall          end the daemon and remove the driver from the node; refuses
                     while volumes are in use; see uninstall --help
  status [-o json]   show the node's mount, the daemon and the volumes
  stop [--force]     end the daemon and remove the mount; refuses while volumes
                     are mounted, which --force unmounts
  upgrade            let this version take over from the one that serves, as init
                     does
  restore            heal volumes whose daemon has died, as init does, and say what
                     was done
  selinux            say whether SELinux lets containers read the volumes, and what
                     to do; --enable-boolean turns virt_sandbox_use_fusefs on
                     until the next boot
  watch FILE         read a file again and again; see watch --help
  version            print the version
  help               print this text

Flags of the commands:
  --driver VENDOR/NAME   the driver to look at, when the binary is not in a
                         directory vendor~name (default example.com/pod-info-fuse)
`
