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
    tests()?;
    cargo(&["test", "--workspace", "--locked", "--no-fail-fast", "--doc"], &[])?;
    cargo(&["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    println!("all checks passed");
    Ok(())
}

/// Runs all test programs, and beside them the tests that have builds of their own: test programs
/// often wait, and leave a fourth of the processors idle.
fn tests() -> Result<()> {
    let programs = crate::test_programs::build()?;
    let (tests, apart) = std::thread::scope(|scope| {
        let apart = scope.spawn(apart);
        (crate::test_programs::run(programs), apart.join().expect("no step panics"))
    });
    match (tests, apart) {
        (Err(tests), Err(apart)) => bail!("{tests:#}; {apart:#}"),
        (tests, apart) => tests.and(apart),
    }
}

/// Tests with target folders of their own, so that no lock makes them wait for another build.
fn apart() -> Result<()> {
    loom()?;
    corpora()?;
    crate::aarch64::run(cargo_behind)
}

/// A build of its own, because loom's types replace the standard library's.
fn loom() -> Result<()> {
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/loom");
    cargo_behind(
        &[
            "test",
            "--package",
            "heaplab-elastic",
            "--lib",
            "--locked",
            "--target-dir",
            target,
            "loom",
        ],
        &[("RUSTFLAGS", "--cfg loom")],
    )
}

/// Runs every input that fuzzing kept. A build of its own, like cargo-fuzz's but without the fuzzer
/// (checksums are not compared).
fn corpora() -> Result<()> {
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/corpora");
    cargo_behind(
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
fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
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

/// Runs cargo with what the test programs leave of the processors. Its output appears when it ends.
fn cargo_behind(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let output = Command::new("nice")
        .args(["-n", "10", &cargo_program()])
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .context("cannot start cargo")?;
    let arguments = arguments.join(" ");
    let [stderr, stdout] =
        [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes));
    println!("$ cargo {arguments}\n{stderr}{stdout}");
    if !output.status.success() {
        bail!("cargo {arguments} failed ({})", output.status);
    }
    Ok(())
}

/// The cargo that runs this program.
pub(crate) fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
