#!/bin/sh
# The driver of this node's kubelet, beside its configuration.
exec "$(cat /var/lib/@PROGRAM@/plugin-dir)/example.com~@PROGRAM@/@PROGRAM@" "$@"
