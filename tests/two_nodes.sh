#!/usr/bin/env bash
# Two nodes on one Linux machine: each in a network namespace of its own, with a cable (veth) between them.
#   tests/two_nodes.sh COMMAND...    runs `COMMAND... --nnodes 2 --rdzv 10.77.0.1:29400` in the first and the same
#                                    with `--node-rank 1` in the second. The exit code is that of the first.
# Needs no root where the kernel lets people make user namespaces.
set -euo pipefail

if [[ ${1:-} != --inside ]]; then
    exec unshare --user --map-root-user --net "$0" --inside "$@"
fi
shift

unshare --net sleep infinity &
other=$!
lock=$(mktemp -d)
trap 'kill "$other"; rm -rf "$lock"' EXIT
# Its namespace is there once it differs from this one's.
until [[ $(readlink /proc/$other/ns/net) != $(readlink /proc/$$/ns/net) ]]; do sleep 0.05; done
there() { nsenter --target "$other" --net "$@"; }

ip link add cable0 type veth peer name cable1
ip link set cable1 netns "$other"
ip address add 10.77.0.1/24 dev cable0
there ip address add 10.77.0.2/24 dev cable1
ip link set lo up
ip link set cable0 up
there ip link set lo up
there ip link set cable1 up

# One machine, two locks: with one of them the second would not begin while the first runs.
TIPBENCH_LOCK=$lock/1 there "$@" --nnodes 2 --node-rank 1 --rdzv 10.77.0.1:29400 >&2 &
node1=$!
code=0
TIPBENCH_LOCK=$lock/0 "$@" --nnodes 2 --rdzv 10.77.0.1:29400 || code=$?
wait "$node1"
exit "$code"
