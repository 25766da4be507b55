#!/bin/sh
# Makes a module as this one, of another version of Kubernetes: the newest patch of 1.36, or 1.36.3.
# Prints nothing, and does nothing where DIR has that version.
#
#	pin.sh VERSION DIR
set -eu
wanted=${1:?pin.sh: no version} dir=${2:?pin.sh: no directory}
cd "$(dirname "$0")"

pinned=$(cd "$dir" 2>/dev/null && go mod edit -print | sed -n 's/^require k8s.io\/kubernetes v//p') || true
case $pinned. in "$wanted".*) exit ;; esac

version=$(GOFLAGS=-mod=mod go list -m -f '{{.Version}}' "k8s.io/kubernetes@v$wanted")
# Its own go.mod names the staging modules, which it requires at v0.0.0.
its=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
new=$dir.new
rm -rf "$new"
mkdir -p "$new"
cp tools.go "$new"
cd "$new"
go mod init example.com/pod-info-fuse/e2e/kubernetes 2>/dev/null
sed -n 's/^\t*\(k8s.io\/[^ ]*\) => .\/staging.*/\1/p' "$its" | while read -r module; do
	go mod edit -replace "$module=$module@v0${version#v1}"
done
go mod edit -require "k8s.io/kubernetes@$version"
said=$(go mod tidy 2>&1) || {
	echo "$said" >&2
	echo "pin.sh: perhaps not all modules of $version can be had; if so, name an older patch, as KUBERNETES=1.32.5" >&2
	exit 1
}
rm -rf "$dir"
mv "$new" "$dir" # complete, now that it has its name
