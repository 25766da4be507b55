#!/bin/sh
# Reads volumes in containers with a user namespace, as of a pod with hostUsers: false, by
# runc: one that mounts the volume for writing, which is what a volume is mounted for unless
# its pod says otherwise, and one that mounts it read-only. Needs root, Linux 6.12, and a C
# compiler for runc; installs what is missing.
#
#	run.sh DRIVER-BINARY
set -eu
binary=$(realpath "${1:?run.sh: no binary of the driver}")
cd "$(dirname "$0")"

missing=
command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
for package in busybox-static pkg-config libseccomp-dev; do
	dpkg-query -W -f '${db:Status-Status}' $package 2>/dev/null | grep -qx installed || missing="$missing $package"
done
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # a list of package names
	../install.sh $missing
fi
CGO_ENABLED=1 go build -tags seccomp -o ../bin/runc github.com/opencontainers/runc

tree=$(mktemp -d)
name=$(basename "$tree" | tr . -)
driver=$tree/plugins/example.com~userns-$name/pod-info-fuse
uid=0a2c6ce4-6f0c-4fb5-9d6c-51ba6a0f9d01
volume=$tree/pods/$uid/volumes/example.com~userns-$name/pod-info
cleanUp() {
	"$driver" unmount "$volume" >/dev/null
	"$driver" stop
	rm -rf --one-file-system "$tree"
}
trap cleanUp EXIT
chmod 0711 "$tree"
mkdir -p "${driver%/*}" "$volume"
cp "$binary" "$driver"
"$driver" mount "$volume" "{\"kubernetes.io/pod.uid\": \"$uid\"}" | grep -F '"Success"'

# The container's root is no user of the node.
mapped='[{"containerID": 0, "hostID": 100000, "size": 65536}]'

# container NAME OPTIONS SCRIPT: run a script in a container that has the volume on /volume.
container() {
	bundle=$tree/$1
	mkdir -p "$bundle/rootfs/bin" "$bundle/rootfs/proc" "$bundle/rootfs/volume"
	cp "$(command -v busybox)" "$bundle/rootfs/bin/busybox"
	for applet in sh cat grep mkdir chmod touch stat; do ln -s busybox "$bundle/rootfs/bin/$applet"; done
	chown -R 100000:100000 "$bundle"
	printf '%s\n' "$3" >"$bundle/rootfs/script"
	cat >"$bundle/config.json" <<-END
		{
		  "ociVersion": "1.2.0",
		  "process": {"args": ["sh", "/script"], "cwd": "/", "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0},
		    "capabilities": {"bounding": ["CAP_DAC_OVERRIDE"], "effective": ["CAP_DAC_OVERRIDE"], "permitted": ["CAP_DAC_OVERRIDE"]}},
		  "root": {"path": "rootfs"},
		  "mounts": [
		    {"destination": "/proc", "type": "proc", "source": "proc"},
		    {"destination": "/volume", "type": "bind", "source": "$volume", "options": [$2],
		      "uidMappings": $mapped, "gidMappings": $mapped}
		  ],
		  "linux": {
		    "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "user"}],
		    "uidMappings": $mapped, "gidMappings": $mapped
		  }
		}
	END
	../bin/runc --root "$tree/runc" run --bundle "$bundle" "$name-$1" </dev/null
}

# What every container shall find.
reads="set -eu
test \"\$(cat /volume/pod.uid)\" = $uid
test \"\$(stat -c %u:%g:%a /volume)\" = 0:0:555
"
refused='for change in "touch /volume/new" "mkdir /volume/new" "chmod 0777 /volume" "sh -c \"echo >/volume/pod.uid\""; do
	if message=$(eval "$change" 2>&1); then echo "$change: succeeds"; exit 1; fi
	case $message in *"Read-only file system"*) ;; *) echo "$change: $message"; exit 1 ;; esac
done
'

container for-writing '"rbind", "rprivate", "rw"' "$reads$refused"'grep " /volume [^ ]* rw," /proc/mounts'
container read-only '"rbind", "rprivate", "ro"' "$reads$refused"'grep " /volume [^ ]* ro," /proc/mounts'
echo ok
