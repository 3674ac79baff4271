//! Everything that CI runs, in the order of the earliest failure.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// A workspace of its own.
const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/Cargo.toml");

/// Arguments of `cargo xtask check`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs all checks; the first failure ends it.
pub fn run(_args: Args) -> Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["fmt", "--manifest-path", FUZZ, "--check"], &[])?;
    crate::tidy::run()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])?;
    crate::test_programs::run()?;
    // A build of its own, because loom's types replace the standard library's: about 40 s from
    // nothing, then a second.
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/loom");
    let loom = [
        "test",
        "--package",
        "heaplab-elastic",
        "--lib",
        "--locked",
        "--target-dir",
        target,
        "loom",
    ];
    cargo(&loom, &[("RUSTFLAGS", "--cfg loom")])?;
    corpora()?;
    crate::aarch64::run(cargo)?;
    cargo(&["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    println!("all checks passed");
    Ok(())
}

/// Runs every input that fuzzing kept. A build of its own, like cargo-fuzz's but without the fuzzer
/// (checksums are not compared).
fn corpora() -> Result<()> {
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/corpora");
    cargo(
        &[
            "test",
            "--manifest-path",
            FUZZ,
            "--no-default-features",
            "--lib",
            "--test",
            "corpora",
            "--target-dir",
            target,
        ],
        &[("RUSTFLAGS", "--cfg fuzzing"), ("CARGO_PROFILE_DEV_DEBUG", "0")],
    )
}

/// Runs cargo, and fails if cargo does.
pub(crate) fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    println!("$ cargo {}", arguments.join(" "));
    let status = Command::new(cargo_program())
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo {} failed ({status})", arguments.join(" "));
    }
    Ok(())
}

/// The cargo that runs this program.
pub(crate) fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
