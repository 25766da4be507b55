#!/bin/sh
# Plays the kubelet for one volume, and kills and upgrades what serves it under a reader.
# Needs root and /dev/fuse; leaves nothing behind.
#
#   demo.sh BINARY NEXT [--wait]     NEXT is another version; with --wait, the volume
#                                    stays until Enter is pressed
set -eu
export LC_ALL=C
unset COLUMNS
[ "$(id -u)" = 0 ] || { echo "demo: mounting needs root" >&2; exit 1; }

root=$(mktemp -d)
uid=1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1
name=demo-${root##*[!A-Za-z0-9]}.example.com~pod-info-fuse # nobody else on this machine has it
driver=$root/plugins/$name/pod-info-fuse
volume=$root/kubelet/pods/$uid/volumes/$name/pod-info
reader=

clean() {
	[ -z "$reader" ] || kill "$reader" 2>/dev/null || :
	"$driver" stop --force || :
	rm -rf --one-file-system "$root"
}
trap clean EXIT
trap 'exit 1' HUP INT PIPE TERM

# short leaves out of a text what a person needs not read: where things are for the demo.
short() { sed "s|$driver|pod-info-fuse|g; s|$volume|VOLUME|g; s|$root||g"; }

# show runs a command and shows both it and what it prints.
show() {
	echo "# $*" | short
	"$@" | short
}

# pair shows who serves and who stands by, once there are both, and neither is the process $1.
pair() {
	tries=0
	until status=$("$driver" status) &&
		active=$(echo "$status" | sed -n 's/^active *process \([0-9]*\),.*/\1/p') && [ -n "$active" ] &&
		echo "$status" | grep -q '^standby *process' && ! echo "$status" | grep -q "process $1,"; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || { echo "demo: there are not two processes after a minute:" "$status" >&2; exit 1; }
		sleep 0.1
	done
	echo "# pod-info-fuse status"
	echo "$status" | sed -n '/^active /s/, for .*//p; /^standby /s/, for .*//p'
}

# reads counts what the reader has read, and fails if it has ended.
reads() {
	if grep -e ' error: ' -e ' failed$' "$root/reads" >&2; then
		echo "demo: the reader has met an error" >&2
		exit 1
	fi
	grep -c ' in ' "$root/reads" || : # 0 is a count
}

mkdir -p "$(dirname "$driver")" "$volume"
cp "$1" "$driver"

echo "The kubelet makes a directory for the pod's volume, and calls the driver:"
show "$driver" mount "$volume" "{\"kubernetes.io/pod.uid\":\"$uid\"}"
echo
echo "The pod finds in it:"
show ls -x "$volume"
show cat "$volume/pod.uid"
# The file pod has the PID of the process that reads it.
for name in first second; do
	sh -c 'read pid < "$1/pod"; echo "The $2 shell reads in VOLUME/pod: $pid. It is process $$."' sh "$volume" "$name"
done
echo
echo "A reader begins, 200 times a second, and ends at the first error:"
echo "# pod-info-fuse watch --exit-on-error --interval 5ms VOLUME/pod.nodename &"
: >"$root/reads" # before it is counted
"$driver" watch --exit-on-error --interval 5ms "$volume/pod.nodename" >>"$root/reads" 2>&1 &
reader=$!
echo
echo "Two processes hold the volumes of the node. Kill the one that answers, twice:"
pair none
for _ in 1 2; do
	show kill -9 "$active"
	pair "$active"
done
echo
echo "Put the next version into its place:"
cp "$2" "$driver.new"
mv "$driver.new" "$driver"
show "$driver" upgrade
pair "$active"
echo
before=$(reads)
count=$before tries=0
while [ "$count" -lt $((before + 20)) ]; do # from the new version, too
	tries=$((tries + 1))
	[ $tries -lt 600 ] || { echo "demo: the reader has waited for a minute" >&2; exit 1; }
	sleep 0.1
	count=$(reads)
done
echo "The reader has read $count times by now, and has met no error."

if [ "${3-}" = --wait ]; then
	echo
	echo "The driver is $driver"
	echo "The volume is $volume"
	printf 'Press Enter to go on. '
	read -r _
fi

kill "$reader" 2>/dev/null || : # it has ended if somebody, meanwhile, has killed both processes
wait "$reader" 2>/dev/null || : # it was killed
reader=
echo
echo "The pod ends. The kubelet calls:"
show "$driver" unmount "$volume"
rmdir "$volume" # as the kubelet does
show "$driver" stop
echo "Nothing is left."
