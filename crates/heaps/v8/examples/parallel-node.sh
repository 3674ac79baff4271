#!/bin/bash
# A real Node with parallel scavenger tasks, for `node=` of the family `node`, whose driver forbids
# them. All else stays in one thread. Copy it beside the program `node`.
single="--single-threaded --single-threaded-gc"
arguments=()
for argument in "$@"; do
    case $argument in
    --single-threaded) continue ;;
    --single-threaded-gc)
        arguments+=(--parallel-scavenge)
        arguments+=(--no-{concurrent-{marking,sweeping,array-buffer-freeing,store-buffer},parallel-{compaction,marking,pointer-update}})
        continue
        ;;
    esac
    # The driver switches its flags while it fills holes.
    argument=${argument//$single --no-concurrent/--no-concurrent}
    argument=${argument//--no-single-threaded --no-single-threaded-gc --conc/--conc}
    arguments+=("$argument")
done
exec "$(dirname "$0")/node" "${arguments[@]}"
