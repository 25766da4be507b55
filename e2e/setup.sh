#!/bin/sh
# Installs and builds what the end-to-end tests run: containerd, runc and a
# static busybox from Debian's packages, and the kubelet from the Go module
# proxy. Needs root. Running it again costs a second.
#
# Where a package's containerd runs as a service, it does not matter: the tests
# start a containerd of their own, with all its directories elsewhere.
set -eu
cd "$(dirname "$0")"

missing=
for need in containerd:containerd ctr:containerd runc:runc; do
	command -v "${need%:*}" >/dev/null || missing="$missing ${need#*:}"
done
# By package, not by command: Debian's other busybox is not static, and the
# tests' image has no libc.
dpkg-query -W -f '${db:Status-Status}' busybox-static 2>/dev/null | grep -qx installed ||
	missing="$missing busybox-static"

if [ -n "$missing" ]; then
	install() {
		# shellcheck disable=SC2086 # a list of package names
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
	}
	# A failure may only mean that the package lists are missing or old.
	install || { apt-get update && install; }
fi

# The module proxy's build carries no version; the kubelet reports this one.
version=$(go -C kubelet list -m -f '{{.Version}}' k8s.io/kubernetes)
CGO_ENABLED=0 go -C kubelet build -o ../bin/kubelet \
	-ldflags "-X k8s.io/component-base/version.gitVersion=$version" \
	k8s.io/kubernetes/cmd/kubelet
