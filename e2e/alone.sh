#!/bin/sh
# Runs a suite that has a kubelet. Another run on this machine may have one, too, and however they are
# configured, they share the cgroup of pods, sysctls and the socket of device plugins: they wait for each other.
#
#	alone.sh COMMAND [ARGUMENT]...
set -eu
exec 9</sys/fs/cgroup
flock --nonblock 9 || {
	echo "alone.sh: waiting for the end of another run that has a kubelet on this machine: make e2e, e2e-cluster or cluster" >&2
	flock 9
}
trap : HUP INT TERM # the command still uses what the lock is for, until it has ended
"$@" 9<&-           # what is left of it must not have the lock
