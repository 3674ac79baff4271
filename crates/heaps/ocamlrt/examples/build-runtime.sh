#!/bin/sh
# Builds an OCaml of another version than the system's, as far as the driver needs: its runtime and ocamlopt.
# usage: build-runtime.sh VERSION FOLDER [SOURCE.tar.gz]; without a source the versions 4.12.0 and 4.14.0 come from npm's package
# `ocaml`, which is OCaml's source; that of others is https://github.com/ocaml/ocaml/archive/refs/tags/VERSION.tar.gz
# then: PATH=FOLDER/bin:$PATH cargo xtask bench ocaml-equal
set -eu
version=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
source=${3:+$(realpath "$3")}
cd "$folder"
if [ -z "$source" ]; then
  npm pack --silent "ocaml@$version" >/dev/null
  source=ocaml-$version.tgz
fi
mkdir -p source bin library
tar -xzf "$source" -C source --strip-components=1
cd source
# Since glibc 2.34 this is no constant.
sed -i 's/\[SIGSTKSZ\]/[16384]/' runtime/signals_nat.c
chmod -R u+x configure build-aux tools
./configure --disable-debugger --disable-ocamldoc --disable-ocamltest --disable-debug-runtime --disable-instrumented-runtime >/dev/null
make -j2 coldstart >/dev/null
make -j2 runtimeopt ocamlopt >/dev/null
cp runtime/libasmrun.a ../library/
ln -sfn "$folder/source/runtime/caml" ../library/caml
cat > ../bin/ocamlopt <<EOF
#!/bin/sh
OCAMLLIB=$folder/library exec $folder/source/runtime/ocamlrun $folder/source/ocamlopt "\$@"
EOF
chmod +x ../bin/ocamlopt
../bin/ocamlopt -version
