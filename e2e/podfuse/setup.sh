#!/bin/sh
# Installs and builds the FUSE programs that pods serve volumes with in `make chaos-pod-fuse`:
# those of Debian's packages; rclone, gcsfuse and go-fuse's loopback from the Go module proxy. rclone is
# the S3 server that s3fs reads from, too, and gcsfuse has a server of its own. It also builds runc, because
# later versions than Debian's clear flags of mounts.
# Needs root. Running it again costs seconds.
#
# mountpoint-s3 is in Rust, and in no package of Debian's.
set -eu
cd "$(dirname "$0")"

needs='runc:runc gcc:gcc pkg-config:pkg-config fusermount3:fuse3 bindfs:bindfs sshfs:sshfs /usr/lib/openssh/sftp-server:openssh-sftp-server
	squashfuse:squashfuse mksquashfs:squashfs-tools gocryptfs:gocryptfs s3fs:s3fs unionfs:unionfs-fuse
	archivemount:archivemount fuse-zip:fuse-zip mergerfs:mergerfs fuse-overlayfs:fuse-overlayfs'
missing=
for need in $needs; do
	command -v "${need%:*}" >/dev/null || missing="$missing ${need#*:}"
done
for package in libc6-dev libseccomp-dev; do
	dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # a list of package names
	../install.sh $missing
fi
# As `make lint` builds its packages, or each would be built twice.
CGO_ENABLED=0 go -C rclone build -ldflags '-s -w' -o ../../bin/rclone .
CGO_ENABLED=0 go -C gcsfuse build -trimpath -ldflags '-s -w' -o ../../bin/ \
	github.com/googlecloudplatform/gcsfuse/v3 github.com/fsouza/fake-gcs-server
CGO_ENABLED=1 go -C ../userns build -tags seccomp -o ../bin/runc github.com/opencontainers/runc
CGO_ENABLED=0 go -C ../.. build -o e2e/bin/loopback github.com/hanwen/go-fuse/v2/example/loopback
