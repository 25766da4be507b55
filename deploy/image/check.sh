#!/bin/sh
# Checks the image that `make image` has written: what is in it, that its binaries
# run, and that another build, elsewhere and from nothing, gives the same bytes.
# Needs root only to install an emulator where it is missing.
#
#	check.sh VERSION
set -eu
version=${1:?check.sh: no version}
cd "$(dirname "$0")/../.."

if ! command -v qemu-aarch64-static >/dev/null; then
	install() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends qemu-user-static; }
	# A failure may only mean that the package lists are missing or old.
	install || { apt-get update && install; }
fi

VERSION=$version go -C deploy/image test -count=1 ./...

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tree"
tar -cf - --exclude=./.git --exclude=./bin --exclude=./e2e . | tar -xf - -C "$scratch/tree"
GOCACHE=$scratch/cache make --no-print-directory -C "$scratch/tree" image VERSION="$version"
cmp bin/image.tar "$scratch/tree/bin/image.tar"
echo "check.sh: another build gave the same image"
