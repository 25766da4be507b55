#!/bin/sh
# Writes the packages of both drivers, .deb and .rpm:
#
#	packages.sh VERSION BINARIES DIR ARCHITECTURE...
#
# BINARIES is where `make binaries` has put them; DIR gets the packages. SOURCE_DATE_EPOCH is
# the time of everything in them. bin/nfpm has to be there, and the binaries of this machine's architecture.
set -eu
version=${1:?packages.sh: no version}
binaries=$(realpath "${2:?packages.sh: no binaries}")
dir=$(realpath "${3:?packages.sh: no directory}")
: "${SOURCE_DATE_EPOCH:?packages.sh: not set}"
shift 3
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

# Names that the chart has as well.
chart() { sed -n "s/^ *$1: //p" deploy/chart/pod-info-fuse/Chart.yaml; }
home=$(chart home) email=$(chart email)

# package PROGRAM ARCHITECTURE ABOUT writes those of one driver for one architecture.
package() {
	for file in package.yaml package.md command.sh postinstall.sh preremove.sh; do
		sed -e "s|@PROGRAM@|$1|g" -e "s|@ARCH@|$2|g" -e "s|@ABOUT@|$3|g" -e "s|@VERSION@|$version|g" \
			-e "s|@BINARIES@|$binaries/linux-$2|g" -e "s|@HOME@|$home|g" -e "s|@EMAIL@|$email|g" -e "s|@SCRATCH@|$scratch|g" \
			"deploy/release/$file" >"$scratch/$file"
	done
	# What says the same on each architecture, from a binary that this machine executes.
	host=$binaries/linux-$(go env GOHOSTARCH)/$1
	"$host" help --man | gzip -9n >"$scratch/manual.gz"
	for shell in bash zsh fish; do
		"$host" completion $shell >"$scratch/completion.$shell"
	done
	for packager in deb rpm; do
		bin/nfpm package --config "$scratch/package.yaml" --packager $packager --target "$dir" >/dev/null
	done
}
for arch; do
	package pod-info-fuse "$arch" 'Kubernetes volumes that tell pods about themselves and their node'
	package pod-fuse "$arch" 'Kubernetes volumes that FUSE programs of unprivileged pods serve'
done
