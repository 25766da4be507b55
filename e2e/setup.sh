#!/bin/sh
# Installs and builds what the end-to-end tests run: the kubelet, containerd and runc
# from the Go module proxy, and a static busybox from Debian's packages; for a cluster,
# etcd and network plugins too, and the rest of Kubernetes. Needs root. Running it again
# costs seconds.
#
#	[KUBERNETES=1.36] [RUNTIME=debian] setup.sh [cluster]
#
# Without KUBERNETES, it is the version in kubernetes/go.mod. Debian's containerd 1.6 and
# runc 1.1 are for kubelets before 1.36, and know no users of a pod's own.
#
# Where a package's containerd or etcd runs as a service, it does not matter: the
# tests start their own, with all their directories and ports elsewhere.
set -eu
cd "$(dirname "$0")"

needs= programs=kubelet
# By package, not by command: Debian's other busybox is not static, and the
# tests' image has no libc. runc wants the library for pods' seccomp profiles.
packages=busybox-static
if [ "${RUNTIME-}" = debian ]; then
	needs="containerd:containerd runc:runc"
else
	needs="gcc:gcc pkg-config:pkg-config"
	packages="$packages libc6-dev libseccomp-dev"
fi
if [ "${1-}" = cluster ]; then
	needs="$needs etcd:etcd-server /usr/lib/cni/bridge:containernetworking-plugins ip:iproute2"
	programs="$programs kube-apiserver kube-controller-manager kube-scheduler kubectl"
fi

missing=
for need in $needs; do
	command -v "${need%:*}" >/dev/null || missing="$missing ${need#*:}"
done
for package in $packages; do
	dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
		missing="$missing $package"
done

if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # a list of package names
	./install.sh $missing
fi

mkdir -p bin
module=kubernetes
if [ -n "${KUBERNETES-}" ]; then
	module=bin/kubernetes-$KUBERNETES
	kubernetes/pin.sh "$KUBERNETES" "$PWD/$module"
fi
# The module proxy's build carries no version; these report it.
version=$(go -C $module list -m -f '{{.Version}}' k8s.io/kubernetes)
# shellcheck disable=SC2046 # a list of package names
CGO_ENABLED=0 go -C $module build -o "$PWD/bin/" \
	-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
	$(printf 'k8s.io/kubernetes/cmd/%s ' $programs)

if [ "${RUNTIME-}" != debian ]; then
	# shellcheck disable=SC2046 # a list of package names
	CGO_ENABLED=0 go -C containerd build -ldflags '-s -w' -o ../bin/ \
		$(printf 'github.com/containerd/containerd/v2/cmd/%s ' containerd containerd-shim-runc-v2 ctr)
	CGO_ENABLED=1 go -C userns build -tags seccomp -o ../bin/runc github.com/opencontainers/runc
fi
