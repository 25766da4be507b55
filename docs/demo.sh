#!/bin/sh
# Plays the kubelet for one volume: init, mount, a look at the files, unmount.
# Needs root and /dev/fuse; leaves nothing behind.
#
#   demo.sh BINARY [--wait]     with --wait, the volume stays until Enter is pressed
set -eu
[ "$(id -u)" = 0 ] || { echo "demo: mounting needs root" >&2; exit 1; }

root=$(mktemp -d)
uid=1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1
driver=$root/plugins/demo.example.com~pod-info-fuse/pod-info-fuse
volume=$root/kubelet/pods/$uid/volumes/demo.example.com~pod-info-fuse/pod-info

clean() {
	"$driver" stop --force || :
	rm -rf --one-file-system "$root"
}
trap clean EXIT

# show runs a command and shows both it and what it prints, without the
# temporary directory's name.
show() {
	echo
	echo "# $*" | sed "s|$root||g"
	"$@" | sed "s|$root||g"
}

mkdir -p "$(dirname "$driver")" "$volume"
cp "$1" "$driver"

echo "The kubelet finds the driver, makes the volume's directory, and calls:"
show "$driver" init
show "$driver" mount "$volume" "{\"kubernetes.io/pod.uid\":\"$uid\",\"kubernetes.io/pod.name\":\"demo\",\"kubernetes.io/pod.namespace\":\"default\"}"

echo
echo "The pod finds in its volume:"
show ls -l "$volume"
show cat "$volume/pod.uid"
show cat "$volume/pod.nodename"

echo
echo "The file pod has the PID of the process that reads it, so two shells read two"
echo "PIDs. Each prints what it read, and what it is:"
for reader in first second; do
	sh -c 'read pid < "$1/pod"; echo "  the $2 shell reads $pid and is $$"' sh "$volume" "$reader"
done
show "$driver" status

if [ "${2-}" = --wait ]; then
	echo
	echo "The driver is $driver"
	echo "The volume is $volume"
	printf 'Press Enter to go on. '
	read -r _
fi

echo
echo "The pod ends. The kubelet calls:"
show "$driver" unmount "$volume"
rmdir "$volume" # as the kubelet does
show "$driver" stop
echo
echo "Nothing is left."
