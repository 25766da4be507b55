#!/bin/sh
# Runs commands on run.sh's machine with what containers of e2e/podchaos need: runc and FUSE programs
# of this machine with their libraries, cgroups, and the loopback. For another ARCH, they are in PACKAGES.
#
#	containers.sh COMMANDS "PROGRAMS" [STATIC-PROGRAM]...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
commands=$1 programs=$2
shift 2

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/usr/bin" "$tree/etc"
for name in lib lib64; do
	mkdir "$tree/usr/$name"
	ln -s "usr/$name" "$tree/$name"
done
[ -n "${PACKAGES:-}" ] || programs="runc $programs"
for program in $programs; do
	path=$(command -v "$program")
	cp "$path" "$tree/usr/bin"
	# A library is behind an arrow, and their loader alone.
	for library in $(ldd "$path" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\).*/\1/p'); do
		mkdir -p "$tree/usr/${library%/*}"
		cp -L "$library" "$tree/usr/$library"
	done
done
touch "$tree/usr/bin/fusermount3" # the driver's is bound on it
ln -s fusermount3 "$tree/usr/bin/fusermount"

TREE=$tree "$here/run.sh" '
export PATH=/usr/sbin:/usr/bin:/bin
cp /bin/busybox /usr/bin
busybox --install -s /usr/bin
ifconfig lo up
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
for controller in cpu cpuset memory devices freezer pids; do
	mkdir /sys/fs/cgroup/$controller
	mount -t cgroup -o $controller cgroup /sys/fs/cgroup/$controller
done
'"$commands" "$@"
