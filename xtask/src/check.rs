//! Everything that CI runs, in the order of the earliest failure.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// A workspace of its own.
const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/Cargo.toml");

/// Variables of jemalloc's makefile. It compiles each file three times for three libraries, and
/// jemalloc's crate links this one; two times take a third less.
const JEMALLOC: &str = "STATIC_LIBS=lib/libjemalloc_pic.a DSOS=";

/// Arguments of `cargo xtask check`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs all checks; the first failure ends it.
pub fn run(_args: Args) -> Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["fmt", "--manifest-path", FUZZ, "--check"], &[])?;
    // Nothing else reads the lock file of the fuzz targets.
    let target = "x86_64-unknown-linux-gnu";
    cargo(&["fetch", "--manifest-path", FUZZ, "--locked", "--target", target], &[])?;
    crate::tidy::run()?;
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    cargo(&arguments, &[("MAKEFLAGS", JEMALLOC)])?;
    tests()?;
    println!("all checks passed");
    Ok(())
}

/// Runs all test programs, and beside them the other tests and the documentation: test programs
/// often wait, and leave a sixth of the processors idle.
fn tests() -> Result<()> {
    let programs = crate::test_programs::build()?;
    let (tests, beside) = std::thread::scope(|scope| {
        let beside = scope.spawn(beside);
        (crate::test_programs::run(programs), beside.join().expect("no step panics"))
    });
    match (tests, beside) {
        (Err(tests), Err(beside)) => bail!("{tests:#}; {beside:#}"),
        (tests, beside) => tests.and(beside),
    }
}

/// The steps with target folders of their own come first: the others lock the folder that some test
/// programs build in.
fn beside() -> Result<()> {
    let documented = || {
        let arguments = ["doc", "--workspace", "--no-deps", "--locked"];
        cargo_behind(&arguments, &[("RUSTDOCFLAGS", "-D warnings")])
    };
    let examples =
        || cargo_behind(&["test", "--workspace", "--locked", "--no-fail-fast", "--doc"], &[]);
    let aarch64 = || crate::aarch64::run(cargo_behind);
    let steps: [&dyn Fn() -> Result<()>; 4] = [&loom, &aarch64, &examples, &documented];
    let failed = steps.into_iter().filter_map(|step| step().err());
    let failed: Vec<String> = failed.map(|error| format!("{error:#}")).collect();
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
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
