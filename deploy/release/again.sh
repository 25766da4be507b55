#!/bin/sh
# Builds what `make release` has written a second time, and compares every byte: in another directory, by
# another user, from nothing but the source and Go's modules. Needs root, and leaves nothing.
#
#	again.sh VERSION DIR
set -eu
umask 022 # the other user reads what this one unpacks
version=${1:?again.sh: no version}
dir=$(realpath "${2:?again.sh: no directory}")
cd "$(dirname "$0")/../.."

fail() { echo "again.sh: $*" >&2; exit 1; }
# The directory is all that can be left: mounts and processes are in namespaces that end with what
# began them.
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
chmod 0755 "$scratch"
aside() { unshare --mount --propagation private --uts --ipc --pid --fork --kill-child --mount-proc "$@"; }

# Nothing of the first build is there but the modules, by another path; nothing can be fetched.
else=$scratch/somewhere/else
mkdir -p "$else/toolchain" "$else/modules"
tar -cf "$scratch/source.tar" --exclude=./.git --exclude=./bin --exclude=./e2e --exclude=./bench --exclude="./dist" .
chown -R 4200004242:4242 "$scratch/somewhere"
# shellcheck disable=SC2016 # it is the inner shell's
aside sh -euc '
	hostname elsewhere
	mount --bind "$(go env GOROOT)" "$1/toolchain"
	mount --bind "$(go env GOMODCACHE)" "$1/modules"
	cd "$1"
	exec setpriv --reuid 4200004242 --regid 4242 --clear-groups env -i PATH="$1/toolchain/bin:$PATH" HOME="$1" TMPDIR="$1" \
		GOPROXY=off GOSUMDB=off GOTOOLCHAIN=local GOMODCACHE="$1/modules" GOCACHE="$1/cache" \
		TZ=Pacific/Kiritimati LANG=C.UTF-8 sh -euc "
			umask 077
			mkdir tree
			tar -xmf ../../source.tar -C tree
			make --no-print-directory -C tree release VERSION=$2"
' sh "$else" "$version" </dev/null
diff "$dir/SHA256SUMS" "$else/tree/dist/SHA256SUMS" || fail "another build gave other bytes"
diff -r "$dir" "$else/tree/dist"
echo "again.sh: another build gave the same bytes"
