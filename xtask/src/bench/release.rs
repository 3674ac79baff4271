//! Benchmarks of library code run in a release build of this program, whatever the one that was
//! started is.

use anyhow::{Context, Result, bail};
use std::process::Command;

/// Where this is a debug build: runs the same command in a release build, and says so.
pub fn again() -> Result<bool> {
    if !cfg!(debug_assertions) {
        return Ok(false);
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["run", "--release", "--quiet", "--package", "xtask", "--"])
        .args(std::env::args_os().skip(1));
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("the benchmark failed ({status})");
    }
    Ok(true)
}

/// CPU time of this process's main thread so far, ns.
pub fn cpu_ns() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").context("/proc/self/schedstat")?;
    text.split(' ')
        .next()
        .and_then(|field| field.parse().ok())
        .context("a number of nanoseconds in /proc/self/schedstat")
}
