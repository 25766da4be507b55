#!/bin/sh
# Restarts a kubelet that systemd runs, on machines with a real systemd: Debian's,
# booted in containers. Restarts one without systemd, too. Needs root; installs
# what is missing. Running it again saves the minute that Debian takes.
#
#	run.sh [ARGUMENT]...		of go test, for instance -run Shutdown -v
set -eu
cd "$(dirname "$0")"
bin=$(cd .. && pwd)/bin

missing=
command -v debootstrap >/dev/null || missing="$missing debootstrap"
command -v systemd-nspawn >/dev/null || missing="$missing systemd-container"
if [ -n "$missing" ]; then
	install() {
		# shellcheck disable=SC2086 # a list of package names
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
	}
	# A failure may only mean that the package lists are missing or old.
	install || { apt-get update && install; }
fi

# The tests start machines on a layer above it, and do not change it.
debian=$bin/debian-systemd
if [ ! -e "$debian" ]; then
	mkdir -p "$bin"
	rm -rf "$debian.new"
	debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$debian.new" >"$debian.log" ||
		{ tail "$debian.log" >&2; exit 1; }
	rm -rf "$debian.new"/var/cache/apt/archives/*.deb "$debian.log"
	mv "$debian.new" "$debian" # complete, now that it has its name
fi

export CGO_ENABLED=0
go test -c -o "$bin/cgroup.test" ../../survive/internal/cgroup
exec go test -tags systemd -count=1 -timeout 30m "$@" .
