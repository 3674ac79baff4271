//! Builds the preload object and the addon for Node with cargo's C compiler, as shared objects that
//! the library carries.

use std::{env, path::PathBuf, process::Command};

const NODE_ADDON: &[&str] = &[
    // Names no library as needed: Node brings its C library, glibc or musl.
    "-nostdlib",
    "-U_FORTIFY_SOURCE",
    "-Wl,-soname,heaplab-node-addon.node",
    "node/addon.c",
    "node/heap.c",
    "node/stream.c",
    "node/v8.c",
];

const PRELOAD: &[&str] = &[
    "-ftls-model=initial-exec",
    "-fexceptions",
    "-fno-builtin-malloc",
    "-fno-plt",
    "-mgeneral-regs-only",
    "-Wl,-z,now",
    // Every process maps the object at its start: two segments instead of five, and no pages to
    // make read-only.
    "-Wl,-z,noseparate-code",
    "-Wl,-z,norelro",
    "-Wl,-soname,heaplab-preload.so",
    "-Wl,--version-script=c/preload.map",
    "c/preload.c",
];

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=node");
    build("preload.so", PRELOAD);
    build("node-addon.node", NODE_ADDON);
}

fn build(name: &str, arguments: &[&str]) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(name);
    let compiler = cc::Build::new().get_compiler();
    let status = Command::new(compiler.path())
        .args(["-std=gnu11", "-O2", "-g1", "-fPIC", "-shared", "-fvisibility=hidden"])
        .args(["-fno-stack-protector", "-Wall", "-Wextra"])
        .args(arguments)
        .arg("-o")
        .arg(out)
        .status()
        .unwrap_or_else(|error| {
            panic!(
                "cannot run the C compiler {}: {error}; install gcc or clang",
                compiler.path().display()
            )
        });
    assert!(status.success(), "{name} does not compile ({status})");
}
