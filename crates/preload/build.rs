//! //! Builds the preload object and the addon for Node with cargo's C compiler, as shared objects
//! that the library carries.

use std::{env, path::PathBuf, process::Command};

fn main() {
    preload();
    node_addon();
}

/// Names no library as needed: Node brings its C library, glibc or musl.
fn node_addon() {
    println!("cargo::rerun-if-changed=node");
    let out =
        PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("node-addon.node");
    let compiler = cc::Build::new().get_compiler();
    let status = Command::new(compiler.path())
        .args([
            "-std=gnu11",
            "-O2",
            "-g1",
            "-fPIC",
            "-shared",
            "-nostdlib",
            "-fvisibility=hidden",
            "-fno-stack-protector",
            "-U_FORTIFY_SOURCE",
        ])
        .args(["-Wall", "-Wextra", "-Wl,-soname,heaplab-node-addon.node"])
        .args(["node/addon.c", "node/heap.c", "node/stream.c", "node/v8.c"])
        .arg("-o")
        .arg(&out)
        .status()
        .unwrap_or_else(|error| {
            panic!(
                "cannot run the C compiler {}: {error}; install gcc or clang",
                compiler.path().display()
            )
        });
    assert!(status.success(), "the addon for Node does not compile ({status})");
}

fn preload() {
    println!("cargo::rerun-if-changed=c");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("preload.so");
    let compiler = cc::Build::new().get_compiler();
    let status = Command::new(compiler.path())
        .args([
            "-std=gnu11",
            "-O2",
            "-g1",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-ftls-model=initial-exec",
            "-fexceptions",
        ])
        .args([
            "-fno-builtin-malloc",
            "-fno-plt",
            "-fno-stack-protector",
            "-mgeneral-regs-only",
            "-Wall",
            "-Wextra",
            "-Wl,-z,now",
            // Every process maps the object at its start: two segments instead of five, and no
            // pages to make read-only.
            "-Wl,-z,noseparate-code",
            "-Wl,-z,norelro",
            "-Wl,-soname,heaplab-preload.so",
            "-Wl,--version-script=c/preload.map",
        ])
        .arg("c/preload.c")
        .arg("-o")
        .arg(&out)
        .status()
        .unwrap_or_else(|error| {
            panic!(
                "cannot run the C compiler {}: {error}; install gcc or clang",
                compiler.path().display()
            )
        });
    assert!(status.success(), "the preload object does not compile ({status})");
}
