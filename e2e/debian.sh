#!/bin/sh
# Makes the Debian of tests that need more of a machine than its kernel: bin/debian, with systemd and
# rpm. The tests work on a layer above it, and do not change it. Needs root; installs what is
# missing. Running it again saves the minute that Debian takes.
set -eu
cd "$(dirname "$0")"

debian=bin/debian
[ ! -e "$debian" ] || exit 0
command -v debootstrap >/dev/null || ./install.sh debootstrap
mkdir -p bin
rm -rf --one-file-system "$debian.new"
# It mounts /proc and /sys there: when it is interrupted, they go with its namespace.
unshare --mount --propagation private debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,rpm bookworm "$debian.new" >"$debian.log" ||
	{ tail "$debian.log" >&2; exit 1; }
rm -rf "$debian.new"/var/cache/apt/archives/*.deb "$debian.log"
mv "$debian.new" "$debian" # complete, now that it has its name
