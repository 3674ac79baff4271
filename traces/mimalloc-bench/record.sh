#!/bin/sh
# Builds the programs of mimalloc-bench that need nothing else, records each that builds, and writes
# the plan of a sweep over them.
#
# record.sh MIMALLOC_BENCH OUT: a checkout of https://github.com/daanx/mimalloc-bench (written for
# ce5784f), and a new folder. CMake and a C++ compiler are installed; `heaplab` is on the PATH.
# Then: heaplab sweep OUT/plan.toml -o OUT/results
#
# Workloads are those of bench.sh with two threads, and shorter: a recording has every event.
# Programs that run for a time (larson, xmalloc-test) do as much as the recorder lets them.
set -eu
bench=$(cd "$1/bench" && pwd)
mkdir "$2"
out=$(cd "$2" && pwd)
cmake -S "$bench" -B "$out/build" -DCMAKE_BUILD_TYPE=Release > "$out/cmake.log" 2>&1
recorded=

# record NAME COMMAND...: if the program builds and can be recorded, it is of the plan.
record() {
    name=$1 program=$2
    shift 2
    if ! cmake --build "$out/build" --target "$program" >> "$out/cmake.log" 2>&1; then
        echo "$name does not build here (cmake.log): left out"
        return
    fi
    if ! (cd "$out/build" && heaplab record -q --force -o "$out/$name.heaplab" -- \
        "./$program" "$@" > "$out/$name.log" 2>&1); then
        echo "$name failed ($name.log): left out"
        rm -rf "$out/$name.heaplab"
        return
    fi
    recorded="$recorded    \"$name.heaplab\",
"
    echo "$name is recorded"
}

record cfrac cfrac 175451865205073170563711388363
record espresso espresso "$bench/espresso/largest.espresso"
record barnes barnes < "$bench/barnes/input"
record larson larson 1 8 1000 5000 1 4141 2
record alloc-test alloc-test 1
record sh6bench sh6bench 2
record sh8bench sh8bench 2
record xmalloc-test xmalloc-test -w 2 -t 1 -s 64
record cache-scratch cache-scratch 2 1000 1 20000 2
record cache-thrash cache-thrash 2 1000 1 20000 2
record malloc-large malloc-large
record mstress mstress 2 10 5
record mleak mleak 5
record rptest rptest 2 0 1 2 50 100 100 8 16000
record glibc-simple glibc-simple
record glibc-thread glibc-thread 1

cat > "$out/plan.toml" << PLAN
bundles = [
$recorded]
heaps = ["glibc", "jemalloc", "mimalloc"]
repetitions = 10
PLAN
