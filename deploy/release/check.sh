#!/bin/sh
# Checks what `make release` has written: that it is whole, and what its packages do on a node. Needs
# root; installs what is missing, and leaves nothing.
#
#	check.sh VERSION DIR
set -eu
version=${1:?check.sh: no version}
dir=$(realpath "${2:?check.sh: no directory}")
cd "$(dirname "$0")/../.."

fail() { echo "check.sh: $*" >&2; exit 1; }
# The directory is all that can be left: mounts and processes are in namespaces that end with what
# began them.
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
chmod 0755 "$scratch"
aside() { unshare --mount --propagation private --uts --ipc --pid --fork --kill-child --mount-proc "$@"; }

echo "=== what is in it"
name=pod-info-fuse-$version
(cd "$dir" && sha256sum --check --quiet --strict SHA256SUMS)
[ "$(find "$dir" -type f | wc -l)" = $(($(wc -l <"$dir/SHA256SUMS") + 1)) ] || fail "SHA256SUMS does not list every file"

mkdir "$scratch/unpacked"
for arch in amd64 arm64; do
	tar -xzf "$dir/$name-linux-$arch.tar.gz" -C "$scratch/unpacked"
	for program in pod-info-fuse pod-info-fuse-csi pod-fuse; do
		file=$scratch/unpacked/$name-linux-$arch/$program
		cmp "$file" "bin/linux-$arch/$program"
		sum=$(sha256sum "$file")
		grep -qF "${sum%% *}" "$dir/$name.cdx.json" || fail "the bill of materials is of another $arch $program"
		go version -m "$file" | awk '$1 == "dep" { print "pkg:golang/" $2 "@" $3 }' >>"$scratch/linked"
	done
done
sed -n 's/.*"purl": "\(.*\)".*/\1/p' "$dir/$name.cdx.json" | grep -v '/stdlib@' | LC_ALL=C sort >"$scratch/told"
LC_ALL=C sort -u "$scratch/linked" | diff - "$scratch/told"
tar -xzf "$dir/$name-manifests.tar.gz" -C "$scratch/unpacked"
for file in deploy/*.yaml deploy/policies deploy/monitoring deploy/examples; do
	diff -r "$file" "$scratch/unpacked/$name-manifests/${file#deploy/}"
done
tar -xzf "$dir/$name.tgz" -C "$scratch/unpacked"
diff -r deploy/chart/pod-info-fuse "$scratch/unpacked/pod-info-fuse"
bin/helm template pod-info-fuse "$dir/$name.tgz" --namespace pod-info-fuse --set createNamespace=true |
	sed -e '1{/^---$/d}' -e '/^# Source: /d' -e '/^    helm.sh\/chart: /d' -e '/^    app.kubernetes.io\/managed-by: /d' >"$scratch/rendered"
tail -n +3 deploy/pod-info-fuse.yaml | diff - "$scratch/rendered"
head -n 1 "$dir/release-notes.md" | grep -qF "# pod-info-fuse $version (" || fail "the release notes are of another version"
[ "$(grep -c '^- ' "$dir/release-notes.md")" -gt 0 ] || fail "the release notes are empty"

echo "=== what it does on a node"
e2e/debian.sh
old=0.0.9 # than any that is released
arch=$(dpkg --print-architecture)
mkdir -p "$scratch/packages" "$scratch/binaries" "$scratch/machine"
make --no-print-directory "bin/old/linux-$arch" VERSION=$old BIN=bin/old
SOURCE_DATE_EPOCH=0 deploy/release/packages.sh "$old" bin/old "$scratch/packages" "$arch"
cp "$dir"/*.deb "$dir"/*.rpm "$scratch/packages"
cp -R "bin/old/linux-$arch" "$scratch/binaries/$old"
cp -R "bin/linux-$arch" "$scratch/binaries/$version"
cp deploy/release/node.sh "$scratch/packages"
for packager in deb rpm; do
	# shellcheck disable=SC2016 # it is the inner shell's
	aside sh -euc '
		root=$1/machine debian=$2
		mount -t tmpfs tmpfs "$root"
		mkdir "$root/upper" "$root/work" "$root/root"
		mount -t overlay -o "lowerdir=$debian,upperdir=$root/upper,workdir=$root/work" overlay "$root/root"
		cd "$root/root"
		mkdir packages binaries host
		mount --bind "$1/packages" packages
		mount --bind "$1/binaries" binaries
		mount -t proc proc proc
		mount -t tmpfs -o mode=0755 tmpfs run
		mount -t tmpfs -o mode=1777 tmpfs tmp
		touch dev/fuse
		mount --bind /dev/fuse dev/fuse
		shift 2
		# By chroot, the node would have another root directory than its mount namespace. The kernel lets nobody
		# make a user namespace there, and pod-fuse makes one.
		pivot_root . host
		cd /
		umount -l /host
		rmdir /host
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive \
			sh /packages/node.sh "$@"
	' sh "$scratch" "$PWD/e2e/bin/debian" $packager "$old" "$version" </dev/null
done
