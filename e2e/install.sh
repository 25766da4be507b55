#!/bin/sh
# Installs Debian's packages, or gets the package lists anew. Needs root.
#
#	install.sh [PACKAGE]...
#
# Another run on this machine may do so at the same time, and apt-get fails beside another one: they
# wait for each other. Of what is not ours, apt-get itself waits for the end, unless it is about the lists.
set -eu
export DEBIAN_FRONTEND=noninteractive

exec 9</var/lib/apt
flock --nonblock 9 || { echo "install.sh: waiting for an apt-get of another run" >&2; flock 9; }
lists() { apt-get update 9<&-; } # services that a package starts must not have the lock
install() { apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@" 9<&-; }

if [ $# = 0 ]; then
	lists
else
	# A failure may only mean that the package lists are missing or old.
	install "$@" || { lists && install "$@"; }
fi
