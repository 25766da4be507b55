#!/bin/sh
# Plays a node: installs, upgrades, downgrades and removes the packages, beside a pod that reads.
# check.sh has made the machine, with nothing but a Debian, /packages and /binaries.
#
#	node.sh deb|rpm OLD NEW			two versions, the first of which is the older one
set -eu
packager=$1 old=$2 new=$3

case $packager in
deb)
	put() { dpkg --install /packages/*_"$1"_"$(dpkg --print-architecture)".deb; }
	take() { dpkg --remove "$1"; }
	lists() { dpkg --listfiles "$1"; }
	has() { dpkg-query --show --showformat '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null | grep -q '^installed'; }
	;;
rpm)
	# Debian's rpm knows nothing of the shell that dpkg has installed, and would rather not be used.
	rpm --initdb
	put() { rpm --upgrade --oldpackage --nodeps --force-debian /packages/*-"$1"-1."$(uname -m)".rpm; }
	take() { rpm --erase "$1"; }
	lists() { rpm --query --list "$1"; }
	has() { rpm --query "$1" >/dev/null; }
	;;
esac

fail() { echo "node.sh: $packager: $*" >&2; exit 1; }
step() { echo "--- $packager: $*"; }

# The kubelet's part: where it looks for drivers, and what it calls them for.
plugins=/usr/libexec/kubernetes/kubelet-plugins/volume/exec
pod=5c1e2d0c-6f0e-4f5b-9a39-2f7f5a0f3c11
driver() { echo "$plugins/example.com~$1/$1"; }
volume() { echo "/var/lib/kubelet/pods/$pod/volumes/example.com~$1/data"; }
callOut() {
	program=$1
	shift
	answer=$("$(driver "$program")" "$@") || true
	case $answer in *'"status":"Success"'*) ;; *) fail "$program $*: $answer" ;; esac
}

# serves VERSION: both drivers are of this version, and so is what serves their volumes.
serves() {
	for program in pod-info-fuse pod-fuse; do
		[ "$("$program" version)" = "$program $1" ] || fail "the driver is $("$program" version), want $1"
		# With volumes there is a daemon, with the versions of its two processes.
		versions=$("$program" status -o json | sed -n '/"daemon"/,/^  }/s/.*"version": "\(.*\)".*/\1/p' | sort -u)
		[ "$versions" = "${2-$1}" ] || fail "the daemon of $program is of the version $versions, want $1"
	done
}

step "install $old"
put "$old"
serves "$old" ''
for program in pod-info-fuse pod-fuse; do
	cmp "/usr/libexec/$program/$program" "/binaries/$old/$program"
	for page in "/usr/share/man/man8/$program.8.gz" "/usr/share/bash-completion/completions/$program" \
		"/usr/share/fish/vendor_completions.d/$program.fish" /usr/share/zsh/*/"_$program"; do
		lists $program | grep -qxF "$page" || fail "the package has no $page"
		[ "$(stat -c %a:%U "$page")" = 644:root ] || fail "$page is not for everybody"
	done
	zcat "/usr/share/man/man8/$program.8.gz" | grep -qF "fuse $old" || fail "the manual page is of another version"
	bash -euc ". /usr/share/bash-completion/completions/$program; complete -p $program" >/dev/null
	mkdir -p "$(volume $program)"
	callOut $program init
	callOut $program mount "$(volume $program)" "{\"kubernetes.io/pod.uid\": \"$pod\",
		\"kubernetes.io/pod.name\": \"reader\", \"kubernetes.io/pod.namespace\": \"default\"}"
done
# The installer would take it now, if it were asked where a driver belongs.
mkdir -p /var/lib/kubelet/volumeplugins

: >/tmp/reads # before it is counted
pod-info-fuse watch --interval 5ms --exit-on-error "$(volume pod-info-fuse)/pod.nodename" >>/tmp/reads 2>&1 &
reader=$!

# reads: it has, ten times since, and without an error.
reads() {
	before=$(wc -l </tmp/reads)
	for _ in $(seq 600); do
		if grep error /tmp/reads; then fail "the reader got an error"; fi
		[ "$(wc -l </tmp/reads)" -le $((before + 10)) ] || return 0
		sleep 0.1
	done
	fail "the reader waits: $(tail -n 1 /tmp/reads)"
}

reads
for version in "$new" "$old" "$new"; do
	step "from $(pod-info-fuse version) to $version"
	put "$version"
	serves "$version"
	reads
done
for program in pod-info-fuse pod-fuse; do
	cmp "/usr/libexec/$program/$program" "/binaries/$new/$program"

	step "remove $program, whose volume is in use"
	if take $program >/tmp/said 2>&1; then fail "it was removed"; fi
	cat /tmp/said
	for part in "volumes are in use" "$(volume $program)  default/reader" "the driver stays, and so does its package"; do
		grep -qF "$part" /tmp/said || fail "it is not said: $part"
	done
	has $program || fail "the package is gone"
done
serves "$new"
reads

kill $reader
wait $reader || true
for program in pod-info-fuse pod-fuse; do
	callOut $program unmount "$(volume $program)"
	step "remove $program"
	take $program
	if has $program; then fail "$program is there after its removal"; fi
done
left=$(find / /run -xdev -path /packages -prune -o -path /binaries -prune -o -path "/var/lib/kubelet/pods" -prune -o \
	-path /var/lib/dpkg -prune -o \( -name '*pod-info-fuse*' -o -name '*pod-fuse*' \) -print)
[ -z "$left" ] || fail "is left: $left"
if readlink /proc/[0-9]*/exe | grep -e pod-info-fuse -e pod-fuse; then fail "a process is left"; fi
if awk '$3 ~ /^fuse/' /proc/mounts | grep .; then fail "a mount is left"; fi
step "$(wc -l </tmp/reads) reads, no error"
