#!/bin/sh
# Installs and builds what the end-to-end tests run: containerd, runc and a
# static busybox from Debian's packages, and the kubelet from the Go module
# proxy; for a cluster, etcd and network plugins too, and the rest of Kubernetes,
# and newer ones of containerd and runc, which know users of a pod's own.
# Needs root. Running it again costs seconds.
#
#	setup.sh [cluster]
#
# Where a package's containerd or etcd runs as a service, it does not matter: the
# tests start their own, with all their directories and ports elsewhere.
set -eu
cd "$(dirname "$0")"

needs='containerd:containerd ctr:containerd runc:runc'
programs=kubelet
if [ "${1-}" = cluster ]; then
	needs="gcc:gcc pkg-config:pkg-config etcd:etcd-server /usr/lib/cni/bridge:containernetworking-plugins ip:iproute2"
	programs="$programs kube-apiserver kube-controller-manager kube-scheduler kubectl"
fi

missing=
for need in $needs; do
	command -v "${need%:*}" >/dev/null || missing="$missing ${need#*:}"
done
# By package, not by command: Debian's other busybox is not static, and the
# tests' image has no libc. runc wants the library for pods' seccomp profiles.
packages=busybox-static
[ "${1-}" != cluster ] || packages="$packages libc6-dev libseccomp-dev"
for package in $packages; do
	dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
		missing="$missing $package"
done

if [ -n "$missing" ]; then
	install() {
		# shellcheck disable=SC2086 # a list of package names
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
	}
	# A failure may only mean that the package lists are missing or old.
	install || { apt-get update && install; }
fi

# The module proxy's build carries no version; these report it.
version=$(go -C kubernetes list -m -f '{{.Version}}' k8s.io/kubernetes)
mkdir -p bin
# shellcheck disable=SC2086 # a list of program names
CGO_ENABLED=0 go -C kubernetes build -o ../bin/ \
	-ldflags "-X k8s.io/component-base/version.gitVersion=$version" \
	$(printf 'k8s.io/kubernetes/cmd/%s ' $programs)

if [ "${1-}" = cluster ]; then
	# shellcheck disable=SC2046 # a list of package names
	CGO_ENABLED=0 go -C containerd build -o ../bin/ \
		$(printf 'github.com/containerd/containerd/v2/cmd/%s ' containerd containerd-shim-runc-v2 ctr)
	CGO_ENABLED=1 go -C userns build -tags seccomp -o ../bin/runc github.com/opencontainers/runc
fi
