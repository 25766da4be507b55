#!/bin/sh
# Restarts a kubelet that systemd runs, on machines with a real systemd: Debian's,
# booted in containers. Restarts one without systemd, too. Needs root; installs
# what is missing.
#
#	run.sh [ARGUMENT]...		of go test, for instance -run Shutdown -v
set -eu
cd "$(dirname "$0")"

command -v systemd-nspawn >/dev/null || ../install.sh systemd-container
../debian.sh

export CGO_ENABLED=0
go build -o ../bin/zip ../../examples/zip
exec go test -tags systemd -count=1 -timeout 30m "$@" .
