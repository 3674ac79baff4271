//! Tests the code that only aarch64 has under an emulator: reading lists of heap snapshots with
//! NEON. (The recorder's own tests, which cross-compile only C, do the same for the recorder:
//! crates/preload/tests/machine.)
//!
//! The tests need Rust's standard library for the target (`rustup target add
//! aarch64-unknown-linux-gnu`), Debian's cross compiler as linker, and qemu. If one is absent, this
//! prints a line and skips the tests. With `HEAPLAB_REQUIRE_ORACLES=1` it fails instead, unless
//! `HEAPLAB_WITHOUT_AARCH64` gives the reason.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Debian's folder of the target's libraries.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Runs the tests, or prints the reason against it.
pub fn run(cargo: impl Fn(&[&str], &[(&str, &str)]) -> Result<()>) -> Result<()> {
    let (linker, emulator) = match tools() {
        Ok(tools) => tools,
        Err(missing) => {
            let excused = std::env::var("HEAPLAB_WITHOUT_AARCH64").ok();
            let required = std::env::var("HEAPLAB_REQUIRE_ORACLES").is_ok_and(|value| value == "1")
                && excused.is_none();
            if required {
                bail!("{missing}");
            }
            println!("skipped on aarch64: {}", excused.unwrap_or(missing));
            return Ok(());
        }
    };
    let target_folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/aarch64");
    let runner = format!("{emulator} -L {LIBRARIES}");
    cargo(
        &[
            "test",
            // Optimised, the crate takes longer to compile than its few tests to run.
            "--config",
            "profile.dev.package.heaplab-snapshot.opt-level=0",
            "--package",
            "heaplab-snapshot",
            "--lib",
            "--locked",
            "--target",
            TARGET,
            "--target-dir",
            target_folder,
            "reader::",
        ],
        &[
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", &linker),
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", &runner),
            ("CC_aarch64_unknown_linux_gnu", &linker),
            ("CARGO_PROFILE_DEV_DEBUG", "0"),
            // Each case takes ten times as long under the emulator.
            ("PROPTEST_CASES", "64"),
        ],
    )
}

/// Linker and emulator, or the missing one.
fn tools() -> Result<(String, String), String> {
    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .context("rustc")
        .map_err(|error| format!("{error:#}"))?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    if !Path::new(&sysroot).join("lib/rustlib").join(TARGET).is_dir() {
        return Err(format!(
            "Rust's standard library for the target is missing (rustup target add {TARGET})"
        ));
    }
    // Any version will do; the package without a version conflicts with gcc-multilib.
    let versions =
        std::iter::once(String::new()).chain((9..40).rev().map(|version| format!("-{version}")));
    let linker = versions
        .map(|version| format!("aarch64-linux-gnu-gcc{version}"))
        .find(|name| installed(name));
    let emulator = ["qemu-aarch64", "qemu-aarch64-static"].into_iter().find(|name| installed(name));
    match (linker, emulator) {
        (Some(linker), Some(emulator)) => Ok((linker, emulator.to_owned())),
        _ => Err("gcc for aarch64-linux-gnu and qemu-aarch64 are not both installed".into()),
    }
}

fn installed(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file())
}
