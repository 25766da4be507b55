#!/bin/sh
# Writes everything that is published:
#
#	release.sh VERSION BINARIES DIR
#
# BINARIES is where `make binaries image` has put its results, and bin has nfpm and sbom; `make release`
# does all that. What DIR, which has to be empty, gets depends on the source alone: not on the time or
# its zone, nor on names, owners, modes and orders of files. docs/dev/releasing.md.
set -eu
umask 022
export LC_ALL=C
version=${1:?release.sh: no version}
binaries=$(realpath "${2:?release.sh: no binaries}")
dir=$(realpath "${3:?release.sh: no directory}")
cd "$(dirname "$0")/../.."

# The version stands in files, too, and a release that contradicts itself is none.
fail() { echo "release.sh: $*" >&2; exit 1; }
entry=$(sed -n 's/^## \([^ ]* ([0-9]*-[0-9]*-[0-9]*)\)$/\1/p' CHANGELOG.md | head -n 1)
[ "${entry% (*}" = "$version" ] ||
	fail "the last dated entry of CHANGELOG.md is \"$entry\": date the one of version $version, or release that with VERSION="
for line in "version: $version" "appVersion: \"$version\""; do
	grep -qxF "$line" deploy/chart/pod-info-fuse/Chart.yaml || fail "deploy/chart/pod-info-fuse/Chart.yaml does not have $line"
done
grep -q "image: \".*:$version\"" deploy/pod-info-fuse.yaml ||
	fail "the manifests have the image of another version; run make manifest"

# The time of everything is that of the entry: it is part of the source, also where the source has come
# without its history, and a commit that changes nothing of the product does not change it.
date=${entry#* (}
SOURCE_DATE_EPOCH=$(date -u -d "${date%)}" +%s)
export SOURCE_DATE_EPOCH

# archive NAME TREE ARGUMENT...: the files that tar's arguments name, below TREE/, as NAME.
archive() {
	file=$dir/$1 tree=$2
	shift 2
	tar --create --use-compress-program='gzip -9n' --file "$file" --format=ustar --sort=name --transform="s|^|$tree/|" \
		--mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$@"
}
name=pod-info-fuse-$version
for arch in amd64 arm64; do
	archive "$name-linux-$arch.tar.gz" "$name-linux-$arch" -C "$PWD" LICENSE \
		-C "$binaries/linux-$arch" pod-info-fuse pod-info-fuse-csi pod-fuse
done
cp "$binaries/image.tar" "$dir/$name-image.tar"
# `helm package` would write the time of the call into it.
archive "$name.tgz" pod-info-fuse -C deploy/chart/pod-info-fuse \
	.helmignore Chart.yaml README.md values.yaml values.schema.json files templates
(cd deploy && archive "$name-manifests.tar.gz" "$name-manifests" -- *.yaml policies monitoring examples)
deploy/release/packages.sh "$version" "$binaries" "$dir" amd64 arm64
bin/sbom --version "$version" --time "$SOURCE_DATE_EPOCH" --out "$dir/$name.cdx.json" \
	"$binaries/linux-amd64" "$binaries/linux-arm64"
{
	echo "# pod-info-fuse $entry"
	awk -v entry="## $entry" '/^## / { wanted = $0 == entry; next } wanted' CHANGELOG.md
} >"$dir/release-notes.md"

chmod 0644 "$dir"/*
(cd "$dir" && sha256sum -- * >.SHA256SUMS && mv .SHA256SUMS SHA256SUMS)
