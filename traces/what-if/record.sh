#!/bin/sh
# Builds three programs as they are and as a what-if says, and records each of the six.
#
# record.sh SQLITE ZSTD GAWK: the folders of sqlite3.c (3.39.2, of the crate libsqlite3-sys 0.25.2),
# of zstd's lib (1.5.7, of the crate zstd-sys 2.1.2) and of gawk 5.2.1 (Debian's source package).
# `heaplab` is on the PATH. Compiled with GCC 12 on Debian 12; glibc 2.36.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sqlite=$1 zstd=$2 gawk=$3
build=/tmp/what-if
mkdir "$build"
trap 'rm -rf "$build"' EXIT
export LC_ALL=C
cp "$here"/*.c "$here"/*.awk "$build"
cd "$build"
places="-ffile-prefix-map=$build=. -ffile-prefix-map=$sqlite=sqlite -ffile-prefix-map=$zstd=zstd"

options="-g -O1 $places -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_DEFAULT_MEMSTATUS=0
    -DSQLITE_DEFAULT_LOOKASIDE=0,0"
gcc $options -I"$sqlite" sqlite.c "$sqlite/sqlite3.c" -lm -o sqlite-before
# SQLite's own way without a header: it asks the allocator for the size.
gcc $options -DHAVE_MALLOC_H=1 -DHAVE_MALLOC_USABLE_SIZE=1 -I"$sqlite" sqlite.c \
    "$sqlite/sqlite3.c" -lm -o sqlite-after
awk -f statements.awk > statements.sql

sources="$zstd/common/*.c $zstd/compress/*.c"
gcc -g -O1 $places -DZSTD_DISABLE_ASM -I"$zstd" zstd.c $sources -o zstd-before
gcc -g -O1 $places -DZSTD_DISABLE_ASM -DREUSE -I"$zstd" zstd.c $sources -o zstd-after
awk -f lines.awk > lines.txt

cp -a "$gawk" gawk
cd gawk
CFLAGS="-g -O1 $places" ./configure --disable-mpfr --disable-nls --disable-extensions > configure.log
make -C support > make.log
make gawk >> make.log
cp gawk ../gawk-before
patch -p1 < "$here/gawk-powers-of-two.patch"
make gawk >> make.log
cp gawk ../gawk-after
cd ..

record() { # NAME COMMAND...: reads standard input
    name=$1
    shift
    heaplab record --force --stack-depth 12 -o "$here/$name.heaplab" -- "$@"
}
for which in before after; do
    record sqlite-$which ./sqlite-$which < statements.sql
    record zstd-$which ./zstd-$which < lines.txt
    record gawk-$which ./gawk-$which -f words.awk lines.txt
done
