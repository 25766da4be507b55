#!/bin/sh
# Runs commands on a real Linux 6.1, Debian's, in an emulated machine: it has no
# FUSE_NOTIFY_RESEND, which came with 6.9.
#
#	run.sh COMMANDS [PROGRAM]...
#
# COMMANDS are a shell script, executed as root by a busybox that finds the static
# PROGRAMs in /bin. Exits with their status. Needs root to install what is missing;
# the emulator needs no KVM. From the environment:
#
#	APPEND	more of the kernel's command line
#	TREE	a directory whose content is put into the machine's root
#	LIMIT	how long the machine may run, in seconds; 1800 by default
set -eu
here=$(cd "$(dirname "$0")" && pwd)
commands=${1:?run.sh: no commands}
shift

missing=
command -v qemu-system-x86_64 >/dev/null || missing="$missing qemu-system-x86"
# By package, not by command: Debian's other busybox is not static.
dpkg-query -W -f '${db:Status-Status}' busybox-static 2>/dev/null | grep -qx installed ||
	missing="$missing busybox-static"
if [ -n "$missing" ]; then
	install() {
		# shellcheck disable=SC2086 # a list of package names
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
	}
	# A failure may only mean that the package lists are missing or old.
	install || { apt-get update && install; }
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The kernel and the one module that is needed are taken out of the package; it
# is not installed, which would make it this machine's kernel.
kernel=$here/../bin/linux-6.1
if [ ! -e "$kernel/vmlinuz" ]; then
	find_package() {
		package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-6\.1\..*\)/\1/p')
		[ -n "$package" ]
	}
	find_package || { apt-get update && find_package; } ||
		{ echo "run.sh: no linux-image-cloud-amd64 of Linux 6.1 among apt's packages; Debian 12 has it" >&2; exit 1; }
	(cd "$scratch" && apt-get -o APT::Sandbox::User=root download "$package")
	mkdir "$scratch/package"
	dpkg-deb --extract "$scratch/$package"_*.deb "$scratch/package"
	mkdir -p "$kernel"
	cp "$scratch"/package/lib/modules/*/kernel/fs/fuse/fuse.ko "$kernel"
	cp "$scratch"/package/boot/vmlinuz-* "$kernel/.vmlinuz"
	mv "$kernel/.vmlinuz" "$kernel/vmlinuz" # the last, and complete: it stands for all
fi

tree=$scratch/tree
mkdir -p "$tree/bin" "$tree/dev" "$tree/proc" "$tree/run" "$tree/sys" "$tree/tmp"
cp "$(command -v busybox)" "$tree/bin"
[ $# = 0 ] || cp "$@" "$tree/bin"
cp "$here/init" "$kernel/fuse.ko" "$tree"
[ -z "${TREE:-}" ] || cp -R "$TREE/." "$tree"
printf '%s\n' "$commands" >"$tree/commands"
(cd "$tree" && find . | busybox cpio -o -H newc) >"$scratch/initramfs" 2>/dev/null

# Everything is printed as it comes, and kept for the status in its last line.
timeout "${LIMIT:-1800}" qemu-system-x86_64 -accel tcg -smp 2 -m 1024 -no-reboot \
	-nodefaults -display none -serial stdio \
	-kernel "$kernel/vmlinuz" -initrd "$scratch/initramfs" \
	-append "console=ttyS0 panic=-1 quiet ${APPEND:-}" </dev/null |
	sed -u 's/\r$//' | tee "$scratch/output" || true
status=$(sed -n 's/^run.sh: status \([0-9]*\)$/\1/p' "$scratch/output" | tail -n 1)
[ -n "$status" ] || { echo "run.sh: the machine ended, or its time was up, before the commands did" >&2; exit 1; }
exit "$status"
