#!/bin/sh
# Makes the package's binary the driver of this node's kubelet. dpkg and rpm execute it after an
# installation, an upgrade and a downgrade, and dpkg after a removal that was refused as well; to
# repeat it does no harm.
set -eu
program=@PROGRAM@
state=/var/lib/$program

# Once the place is known, it stays: while the kubelet is away, the installer would find another one
# than that which the kubelet was asked for.
dir=$(cat "$state/plugin-dir" 2>/dev/null || true)
said=$("/usr/libexec/$program/$program" install ${dir:+--plugin-dir "$dir"})
echo "$said"

# "version 1 installed as DIR/example.com~PROGRAM/PROGRAM (why)"
driver=$(echo "$said" | sed -n 's/^version .* as \(\/.*\) (.*/\1/p')
dir=${driver%/*/*}
mkdir -p "$state"
echo "$dir" >"$state/plugin-dir.new"
mv "$state/plugin-dir.new" "$state/plugin-dir"

# At once. Without it, the kubelet's next volume operation would do it. The version before goes on
# when this one cannot serve, so that is no failure of the package.
"$driver" upgrade || echo "$program: the version before goes on serving; \`$program status\` says more" >&2
