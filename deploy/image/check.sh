#!/bin/sh
# Checks the image that `make image` has written: what is in it, and that its binaries run.
# That another build gives the same bytes, release/again.sh shows. Needs root only to install an emulator where it is missing.
#
#	check.sh VERSION
set -eu
version=${1:?check.sh: no version}
cd "$(dirname "$0")/../.."

command -v qemu-aarch64-static >/dev/null || e2e/install.sh qemu-user-static

VERSION=$version go -C deploy/image test -count=1 ./...
