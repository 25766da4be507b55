# Runs in the machine. Each step stands on its own: it configures the driver,
# mounts a volume, has it read in a container, and takes all of it down.

plugin=/plugins/example.com~pod-info-fuse
driver=$plugin/pod-info-fuse
uid=1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1
volume=/pods/$uid/volumes/example.com~pod-info-fuse/info
default=system_u:object_r:container_file_t:s0

step() { echo "--- $*"; }

fail() {
	echo "FAIL: $*"
	"$driver" status || true
	cat /tmp/log || true
	cat /tmp/log-podfuse || true
	dmesg | tail -n 15
	exit 1
}

# has TEXT PATTERN...: the text has them all.
has() {
	text=$1
	shift
	for pattern; do
		case $text in *"$pattern"*) ;; *) fail "no \"$pattern\" in: $text" ;; esac
	done
}

lacks() { case $1 in *"$2"*) fail "\"$2\" in: $1" ;; esac; }

# enters DOMAIN ROOT COMMAND...: executes a command in the root directory, in a mount namespace of its own
# with what $binds mounts, and in the domain, as a container runtime does it. Its PID is the first line.
binds=:
enters() {
	domain=$1 root=$2
	shift 2
	# The standard input is a pipe because /dev/null is not for containers here.
	: | root=$root unshare -m /bin/sh -c "$binds"' && exec chroot "$root" "$@"' "$domain" \
		/bin/sh -c 'echo $$; echo -n "$0" >/proc/self/attr/exec && exec "$@"' "$domain" "$@" 2>&1
}
container() { enters system_u:system_r:container_t:s0:c1,c2 /container "$@"; }
container_of_another_pod() { enters system_u:system_r:container_t:s0:c3,c4 /another "$@"; }

# starts CONFIG: has the driver mount a volume, which the containers have at /mnt.
starts() {
	echo "$1" >$plugin/config.json
	dmesg -c >/dev/null
	: >/tmp/log
	has "$("$driver" init)" '"Success"'
	mkdir -p "$volume"
	has "$("$driver" mount "$volume" "{\"kubernetes.io/pod.uid\":\"$uid\"}")" '"Success"'
	for root in /container /another; do mount --bind "$volume" $root/mnt; done
}

ends() {
	for root in /container /another; do umount $root/mnt; done
	has "$("$driver" unmount "$volume")" '"Success"'
	"$driver" stop
}

# readable CONTAINER: the container reads what there is to be read, unhindered.
readable() {
	got=$("$1" /bin/cat /mnt/pod.uid /mnt/pod.nodename /mnt/pod /mnt/pid) || fail "$1: $got"
	pid=${got%%[!0-9]*}
	[ "$got" = "$pid
$uid
linux-6.1
$pid
$pid" ] || fail "$1 read: $got"
	lacks "$(dmesg)" 'avc:  denied'
}

# denied CONTAINER TYPE: it does not, and the kernel has logged why.
denied() {
	for file in pod.uid pod.nodename pod; do
		got=$("$1" /bin/cat /mnt/$file) && fail "$1 read $file: $got"
		has "$got" "can't open '/mnt/$file': Permission denied"
	done
	lacks "$got" "$uid"
	dmesg | grep 'avc:  denied' | grep -q "scontext=system_u:system_r:container_t:s0:.*tcontext=system_u:object_r:$2" ||
		fail "the kernel has logged no denial of $2"
}

# status TEXT...: the status has them, without the white space of JSON.
status() { has "$("$driver" status -o json | tr -d ' \n')" "$@"; }

log='"log": "/tmp/log"'
echo 0 >/proc/sys/kernel/printk_ratelimit # or a denial may be missing from dmesg

step 'SELinux has no policy yet: as if it were absent'
mount -t selinuxfs selinuxfs /sys/fs/selinux
mkdir -p /container/mnt /another/mnt
starts "{$log}"
status '"mode":"absent","context":""'
ends

# One write(2), as the kernel wants it.
load() { dd if="/policies/$1" of=/sys/fs/selinux/load bs=8M 2>/dev/null; }
load before-2.75
[ "$(cat /sys/fs/selinux/enforce)" = 1 ] || fail 'not enforcing'
has "$(cat /proc/self/attr/current)" system_u:system_r:kernel_t
for root in /container:c1,c2 /another:c3,c4; do
	mount -t tmpfs -o "context=\"system_u:object_r:container_file_t:s0:${root#*:}\"" tmpfs "${root%%:*}"
	cd "${root%%:*}"
	mkdir bin proc mnt srv
	cp /bin/busybox /loopback bin
	for applet in sh cat; do ln -s busybox bin/$applet; done
	mount -t proc proc proc
	cd /
done
has "$(container /bin/cat /proc/self/attr/current)" system_u:system_r:container_t:s0:c1,c2
has "$(container_of_another_pod /bin/cat /proc/self/attr/current)" system_u:system_r:container_t:s0:c3,c4

step 'Enforcing, no configuration but the log: every container reads'
starts "{$log}"
readable container
readable container_of_another_pod
status '"mode":"enforcing"' "\"context\":\"$default\""
has "$("$driver" status)" enforcing "$default"
lacks "$(cat /tmp/log)" refused

step 'All of the daemon dies: what is healed has the label, too'
process() { "$driver" status | sed -n "s/^$1  *process \([0-9]*\).*/\1/p"; }
until [ -n "$(process standby)" ]; do sleep 0.1; done
active=$(process active) standby=$(process standby)
kill -STOP "$standby" # or it would take over
kill -KILL "$active" "$standby"
has "$("$driver" restore)" 'healed: /container/mnt'
readable container
status "\"context\":\"$default\""
ends

step 'A label with categories: the container that has them reads'
starts "{$log, \"selinuxContext\": \"$default:c1,c2\"}"
readable container
denied container_of_another_pod container_file_t:s0:c1,c2
status "\"context\":\"$default:c1,c2\""
ends

step 'A label that the policy does not know: mounted without, and said so'
starts "{$log, \"selinuxContext\": \"system_u:object_r:no_such_t:s0\"}"
status '"context":""' '"state":"ok"'
has "$(cat /tmp/log)" 'the SELinux label system_u:object_r:no_such_t:s0 is refused'
denied container fusefs_t
ends

step 'No label: denied by a policy that does not let containers read FUSE file systems'
starts "{$log, \"selinuxContext\": \"none\"}"
denied container fusefs_t
status '"mode":"enforcing"' '"context":""'
lacks "$(cat /tmp/log)" refused
ends

step 'No label, and a policy that lets them'
load since-2.75
starts "{$log, \"selinuxContext\": \"none\"}"
readable container
status '"context":""'
ends
starts "{$log}"
readable container
status "\"context\":\"$default\""
ends


# What a pod needs to serve a volume with pod-fuse: it executes the launcher, writes to the FIFO in the
# place of /dev/fuse, connects to the socket, and gets a descriptor by it.
podfuse=/plugins/example.com~pod-fuse/pod-fuse
client=/pods/$uid/volumes/example.com~pod-fuse/data
server=$client-server
starts_podfuse() {
	syslogd -O /tmp/log-podfuse
	dmesg -c >/dev/null
	mkdir -p "$client" "$server"
	has "$("$podfuse" mount "$client" "{\"kubernetes.io/pod.uid\":\"$uid\",\"wait\":\"0s\"}")" '"Success"'
	has "$("$podfuse" mount "$server" "{\"kubernetes.io/pod.uid\":\"$uid\",\"serves\":\"data\"}")" '"Success"'
	# The host must not have the mounts of containers. The server volume comes with what is mounted in it: the FIFO
	# and the socket.
	binds="mount --bind $client \$root/mnt && mount -o rbind $server \$root/srv"
}
ends_podfuse() {
	binds=:
	for volume in "$client" "$server"; do has "$("$podfuse" unmount "$volume")" '"Success"'; done
	"$podfuse" stop
}

step 'pod-fuse: containers use the server volume, whatever their categories are'
starts_podfuse
has "$(mount)" '/servers type tmpfs' "context=$default"
for container in container container_of_another_pod; do
	has "$($container /srv/pod-fuse ready --timeout 10s || true)" 'no program has served it yet'
	has "$($container /bin/sh -c 'exec 3<>/srv/fuse && echo x >&3 && echo written')" written
done
lacks "$(dmesg)" 'avc:  denied'

step 'pod-fuse: a program of a container gets a descriptor of /dev/fuse, and serves'
container /srv/pod-fuse run -- /bin/loopback /bin '{}' | cat >/tmp/program & # a file of ours is not for containers
waited=0
while container /srv/pod-fuse ready --timeout 60s | grep -q served; do
	sleep 0.5
	[ "$((waited += 1))" -lt 20 ] || fail "$(cat /tmp/program)"
done
lacks "$(dmesg | grep -v 'comm="loopback" capability')" 'avc:  denied'
kill "$(head -n 1 /tmp/program)"
wait
ends_podfuse

step 'pod-fuse: a policy that does not know the label of the socket'
load before-2.75
starts_podfuse
has "$(container /srv/pod-fuse ready --timeout 60s || true)" 'ermission denied'
has "$(dmesg)" 'avc:  denied  { connectto }' tcontext=system_u:system_r:kernel_t
ends_podfuse


step 'Permissive: nothing is denied'
load before-2.75
echo 0 >/sys/fs/selinux/enforce
starts "{$log, \"selinuxContext\": \"none\"}"
got=$(container /bin/cat /mnt/pod.uid) || fail "$got"
has "$got" "$uid"
has "$(dmesg)" 'permissive=1'
status '"mode":"permissive"'
ends

echo "all steps passed on Linux $(uname -r), enforcing"
