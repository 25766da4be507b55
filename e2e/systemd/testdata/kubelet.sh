#!/bin/sh
# Plays the kubelet for one volume: mounts it unless it is mounted, and stays.
#
#	kubelet.sh [CGROUP [MOUNT]]	in this cgroup, given by its directory, after
#					which the mount of its hierarchy gets read-only
set -eu
[ -z "${1-}" ] || { mkdir -p "$1" && echo $$ >"$1/cgroup.procs"; }
[ -z "${2-}" ] || mount -o remount,bind,ro "$2"

# Something that a call-out may leave behind, as any daemon used to be. It shows
# that what is killed here is killed indeed.
setsid sleep infinity </dev/null >/dev/null 2>&1 &
echo $! >/run/left-behind

if ! mountpoint --quiet "$VOLUME"; then
	mkdir -p "$VOLUME"
	answer=$("$DRIVER" mount "$VOLUME" "{\"kubernetes.io/pod.uid\":\"$POD_UID\",\"kubernetes.io/pod.name\":\"p\",\"kubernetes.io/pod.namespace\":\"n\"}")
	case $answer in
	*'"Success"'*) ;;
	*) echo "$answer" >&2; exit 1 ;;
	esac
fi

echo $$ >/run/kubelet.pid
[ -z "${NOTIFY_SOCKET-}" ] || systemd-notify --ready
exec sleep infinity
