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
#	ARCH	that of the machine and of the PROGRAMs, amd64 by default, or arm64
#	PACKAGES	Debian's, of ARCH, whose content is put into the machine's root
#	APPEND	more of the kernel's command line
#	TREE	a directory whose content is put into the machine's root
#	LIMIT	how long the machine may run, in seconds; 1800 by default
set -eu
here=$(cd "$(dirname "$0")" && pwd)
commands=${1:?run.sh: no commands}
shift

case ${ARCH:=amd64} in
amd64) qemu=qemu-system-x86_64 package=qemu-system-x86 machine='' console=ttyS0 ;;
# A processor that does not sign its pointers: to emulate that is what takes most of the time.
arm64) qemu=qemu-system-aarch64 package=qemu-system-arm machine='-M virt -cpu neoverse-n1' console=ttyAMA0 ;;
*) echo "run.sh: ARCH is amd64 or arm64, not $ARCH" >&2 && exit 1 ;;
esac

missing=
command -v "$qemu" >/dev/null || missing="$missing $package"
# By package, not by command: Debian's other busybox is not static.
dpkg-query -W -f '${db:Status-Status}' busybox-static 2>/dev/null | grep -qx installed ||
	missing="$missing busybox-static"
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # a list of package names
	"$here/../install.sh" $missing
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The kernel and the one module that is needed are taken out of the package; it
# is not installed, which would make it this machine's kernel.
kernel=$here/../bin/linux-6.1 busybox=$(command -v busybox) more=

# of_arch APT-COMMAND...: for packages of ARCH. Another architecture has package lists of its own for
# the moment, and a busybox: what this machine has, and knows of architectures, stays as it is.
of_arch() { "$@"; }
lists() { "$here/../install.sh"; }
if [ "$ARCH" != amd64 ]; then
	kernel=$kernel-$ARCH more=busybox-static
	busybox=$kernel/busybox
	mkdir -p "$scratch/apt/lists" "$scratch/apt/archives"
	: >"$scratch/apt/status"
	of_arch() {
		command=$1
		shift
		"$command" -o "APT::Architecture=$ARCH" -o "APT::Architectures::=$ARCH" -o APT::Sandbox::User=root \
			-o "Dir::State=$scratch/apt" -o "Dir::State::status=$scratch/apt/status" -o "Dir::Cache=$scratch/apt" "$@"
	}
	lists() { of_arch apt-get update; }
fi
if [ ! -e "$kernel/vmlinuz" ]; then
	find_package() {
		package=$(of_arch apt-cache depends "linux-image-cloud-$ARCH" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-6\.1\..*\)/\1/p')
		[ -n "$package" ]
	}
	find_package || { lists && find_package; } ||
		{ echo "run.sh: no linux-image-cloud-$ARCH of Linux 6.1 among apt's packages; Debian 12 has it" >&2; exit 1; }
	# shellcheck disable=SC2086 # a name, or none
	(cd "$scratch" && of_arch apt-get -o APT::Sandbox::User=root download "$package" $more)
	mkdir "$scratch/package"
	for archive in "$scratch"/*.deb; do dpkg-deb --extract "$archive" "$scratch/package"; done
	mkdir -p "$kernel"
	cp "$scratch"/package/lib/modules/*/kernel/fs/fuse/fuse.ko "$kernel"
	[ -z "$more" ] || cp "$scratch/package/bin/busybox" "$kernel"
	cp "$scratch"/package/boot/vmlinuz-* "$kernel/.vmlinuz"
	mv "$kernel/.vmlinuz" "$kernel/vmlinuz" # the last, and complete: it stands for all
fi

tree=$scratch/tree
mkdir "$tree"
[ -z "${TREE:-}" ] || cp -R "$TREE/." "$tree"
if [ -n "${PACKAGES:-}" ]; then
	mkdir "$scratch/packages"
	lists
	# shellcheck disable=SC2086 # a list of package names
	(cd "$scratch/packages" && of_arch apt-get -o APT::Sandbox::User=root download $PACKAGES)
	for archive in "$scratch"/packages/*.deb; do
		dpkg-deb --fsys-tarfile "$archive" | tar --extract --keep-directory-symlink --directory "$tree"
	done
fi
mkdir -p "$tree/bin" "$tree/dev" "$tree/proc" "$tree/run" "$tree/sys" "$tree/tmp"
cp "$busybox" "$tree/bin"
[ $# = 0 ] || cp "$@" "$tree/bin"
cp "$here/init" "$kernel/fuse.ko" "$tree"
printf '%s\n' "$commands" >"$tree/commands"
(cd "$tree" && find . | busybox cpio -o -H newc) >"$scratch/initramfs" 2>/dev/null

# Everything is printed as it comes, and kept for the status in its last line.
# shellcheck disable=SC2086 # options
timeout "${LIMIT:-1800}" "$qemu" $machine -accel tcg -smp 2 -m 1024 -no-reboot \
	-nodefaults -display none -serial stdio \
	-kernel "$kernel/vmlinuz" -initrd "$scratch/initramfs" \
	-append "console=$console panic=-1 quiet ${APPEND:-}" </dev/null |
	sed -u 's/\r$//' | tee "$scratch/output" || true
status=$(sed -n 's/^run.sh: status \([0-9]*\)$/\1/p' "$scratch/output" | tail -n 1)
[ -n "$status" ] || { echo "run.sh: the machine ended, or its time was up, before the commands did" >&2; exit 1; }
exit "$status"
