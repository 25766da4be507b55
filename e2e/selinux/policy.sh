#!/bin/sh
# Compiles the policies before-2.75 and since-2.75 into a directory: Debian's, and
# what container-selinux of that age adds for a volume. Needs root to install the
# compiler.
#
#	policy.sh DIRECTORY
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?policy.sh: no directory}
debian=$here/../bin/selinux

missing=
command -v secilc >/dev/null || missing="$missing secilc"
command -v bzip2 >/dev/null || missing="$missing bzip2"
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # a list of package names
	"$here/../install.sh" $missing
fi

# Debian's policy is taken out of its package. To install it would change how this
# machine boots. The same goes for the translator of its modules.
if [ ! -e "$debian" ]; then
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	cd "$scratch"
	fetch() { apt-get -o APT::Sandbox::User=root download selinux-policy-default policycoreutils; }
	fetch || { "$here/../install.sh" && fetch; }
	for package in *.deb; do dpkg-deb --extract "$package" .; done
	mkdir cil
	# unconfined is what lets the first process do as it likes.
	for module in base unconfined; do
		bzip2 -dc "usr/share/selinux/default/$module.pp.bz2" >"$module.pp"
		usr/libexec/selinux/hll/pp "$module.pp" "$module.cil"
		# Who logs in as what is for programs, and names users of other modules.
		sed '/^(selinuxuser/d' "$module.cil" >"cil/$module.cil"
	done
	mkdir -p "$(dirname "$debian")"
	mv cil "$debian" # complete, now that it has its name
fi

mkdir -p "$out"
for policy in before-2.75 since-2.75; do
	# 33 is a version of the format that Linux 6.1 reads.
	secilc --mls true --policyvers 33 --output "$out/$policy" --filecontext /dev/null \
		"$debian"/*.cil "$here/container.cil" "$here/$policy.cil"
done
