#!/bin/sh
# Mounts volumes and reads them in a container's domain on a kernel that enforces
# a policy: Linux 6.1, emulated, with Debian's policy and what container-selinux
# adds to it. What that shows and does not is in docs/selinux.md. Needs root;
# installs what is missing.
#
#	run.sh DRIVER-BINARY POD-FUSE LOOPBACK
set -eu
binary=$(realpath "${1:?run.sh: no binary of the driver}")
podfuse=$(realpath "${2:?run.sh: no binary of pod-fuse}")
loopback=$(realpath "${3:?run.sh: no program that serves}")
cd "$(dirname "$0")"

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
plugin=$tree/plugins/example.com~pod-info-fuse
mkdir -p "$plugin"
cp "$binary" "$plugin/pod-info-fuse"
mkdir "$tree/plugins/example.com~pod-fuse"
cp "$podfuse" "$tree/plugins/example.com~pod-fuse/pod-fuse"
cp "$loopback" "$tree/loopback"
./policy.sh "$tree/policies"

APPEND='security=selinux selinux=1 enforcing=1' TREE=$tree \
	../linux-6.1/run.sh "$(cat suite.sh)"
