#!/bin/sh
# Installs what the driver is compared with, into the directory bin: hello_ll, which
# is an example of Debian's libfuse3-dev, compiled as the package says, and lxcfs.
# Needs root. Running it again costs no time.
set -eu
cd "$(dirname "$0")"
mkdir -p bin

missing=
for need in libfuse3-dev gcc libc6-dev pkgconf util-linux; do
	dpkg-query -W -f '${db:Status-Status}' "$need" 2>/dev/null | grep -qx installed || missing="$missing $need"
done
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # a list of package names
	../e2e/install.sh $missing
fi

if [ ! -x bin/hello_ll ]; then
	# shellcheck disable=SC2046 # a list of flags
	gcc -O2 -Wall /usr/share/doc/libfuse3-dev/examples/hello_ll.c $(pkg-config --cflags --libs fuse3) -o bin/hello_ll
fi

# Unpacked and not installed: the package would start a service.
if [ ! -x bin/lxcfs/usr/bin/lxcfs ]; then
	rm -rf bin/download bin/lxcfs
	mkdir bin/download
	# apt gives up its privileges to download, unless it must not.
	fetch() { (cd bin/download && apt-get -o APT::Sandbox::User=root download lxcfs); }
	fetch || { ../e2e/install.sh && fetch; }
	dpkg-deb -x bin/download/lxcfs_*.deb bin/lxcfs
	rm -r bin/download
fi
