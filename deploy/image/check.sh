#!/bin/sh
# Checks the image that `make image` has written: what is in it, and that its binaries run.
# That another build gives the same bytes, release/again.sh shows. Needs root only to install an emulator where it is missing.
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
