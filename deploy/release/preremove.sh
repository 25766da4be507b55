#!/bin/sh
# Takes the driver away from this node's kubelet, before the package's files go. While volumes are in
# use, that is refused, and so is the removal: dpkg and rpm leave the package as it is.
set -eu
program=@PROGRAM@
state=/var/lib/$program
case ${1-} in
remove | 0) ;; # dpkg says what it does, and rpm how many versions remain
*) exit 0 ;;   # an upgrade: the other version's postinstall goes on from here
esac

dir=$(cat "$state/plugin-dir" 2>/dev/null || true)
if ! "/usr/libexec/$program/$program" uninstall ${dir:+--plugin-dir "$dir"}; then
	echo "$program: the driver stays, and so does its package. Remove it once the pods are gone;" >&2
	echo "  \`$program uninstall${dir:+ --plugin-dir $dir} --force\` takes the volumes from pods that use them." >&2
	exit 1
fi
rm -rf "$state"
