#!/bin/sh
# Builds the programs of mimalloc-bench that need nothing else, records each that builds, and writes
# the plan of a sweep over them.
#
# record.sh MIMALLOC_BENCH OUT: a checkout of https://github.com/daanx/mimalloc-bench (written for
# ce5784f), and a new folder. GCC is installed; `heaplab` is on the PATH.
# Then: heaplab sweep OUT/plan.toml -o OUT/results
#
# Workloads are those of bench.sh with two threads, and shorter: a recording has every event. larson
# and xmalloc-test run for a time, so they do as much as the recorder lets them. sh6bench and
# sh8bench have sources that mimalloc-bench's build-bench-env.sh fetches.
set -eu
mkdir "$2"
out=$(cd "$2" && pwd)
mkdir "$out/build"
cd "$1/bench"
recorded=

# build NAME COMPILER ARGUMENTS...: whether the program builds.
build() {
    name=$1
    shift
    if "$@" -O3 -w -pthread -lm -o "$out/build/$name" > "$out/build/$name.log" 2>&1; then
        return 0
    fi
    echo "$name does not build here ($out/build/$name.log): left out"
    return 1
}

# record NAME ARGUMENTS...: if the program ends well, it is of the plan.
record() {
    name=$1
    shift
    if heaplab record -q -o "$out/$name.heaplab" -- "$out/build/$name" "$@" \
        > "$out/$name.log" 2>&1; then
        recorded="$recorded    \"$name.heaplab\",
"
        echo "$name is recorded"
    else
        echo "$name fails ($out/$name.log): left out"
        rm -rf "$out/$name.heaplab"
    fi
}

# Files of cfrac's folder that CMakeLists.txt does not name have a main or a copy of their own.
cfrac=$(ls cfrac/*.c | grep -v -e getopt -e ltop -e pfactor -e ptob)
build cfrac gcc -std=gnu89 -DNOMEMOPT=1 $cfrac -lm && record cfrac 175451865205073170563711388363
build espresso gcc -std=gnu89 espresso/*.c -lm && record espresso espresso/largest.espresso
build barnes gcc -std=gnu89 barnes/*.c -lm && record barnes < barnes/input
build larson g++ -DCPP=1 larson/larson.cpp && record larson 1 8 1000 5000 1 4141 2
build alloc-test g++ -std=c++17 -DBENCH=4 alloc-test/*.cpp && record alloc-test 1
build sh6bench gcc -DBENCH=1 -DSYS_MULTI_THREAD=1 shbench/sh6bench-new.c && record sh6bench 2
build sh8bench gcc -DBENCH=1 -DSYS_MULTI_THREAD=1 shbench/sh8bench-new.c && record sh8bench 2
build xmalloc-test gcc xmalloc-test/xmalloc-test.c && record xmalloc-test -w 2 -t 1 -s 64
build cache-scratch g++ cache-scratch/cache-scratch.cpp && record cache-scratch 2 1000 1 20000 2
build cache-thrash g++ cache-thrash/cache-thrash.cpp && record cache-thrash 2 1000 1 20000 2
build malloc-large g++ -std=c++17 malloc-large/malloc-large.cpp && record malloc-large
build mstress gcc mstress/mstress.c && record mstress 2 10 5
build mleak gcc mleak/mleak.c && record mleak 5
build rptest gcc -Irptest rptest/*.c && record rptest 2 0 1 2 50 100 100 8 16000
build glibc-simple gcc glibc-bench/bench-malloc-simple.c && record glibc-simple
build glibc-thread gcc glibc-bench/bench-malloc-thread.c && record glibc-thread 1

cat > "$out/plan.toml" << PLAN
bundles = [
$recorded]
heaps = ["glibc", "jemalloc", "mimalloc"]
repetitions = 10
PLAN
