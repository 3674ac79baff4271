//! Studies and benchmarks: programs of their own, built in release and run. `check` and `tidy` do
//! without their dependencies (allocators, Parquet, snapshots).

use crate::check::cargo_program;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs the study named by the first argument, with the other arguments; without one, lists the
/// studies. `HEAPLAB` tells the study where heaplab is.
///
/// # Errors
/// There is no such study, or it does not build.
pub fn study(arguments: &[OsString]) -> Result<ExitCode> {
    let known = studies()?;
    let name = arguments.first().and_then(|name| name.to_str());
    let Some(name) = name.filter(|name| !name.starts_with('-')) else {
        println!("Studies:");
        known.iter().for_each(|name| println!("  {name}"));
        println!("`cargo xtask study NAME` measures every claim of one; NAME --help says more.");
        return Ok(ExitCode::SUCCESS);
    };
    if !known.iter().any(|known| known == name) {
        eprintln!("xtask: there is no study {name:?}; there are: {}", known.join(", "));
        return Ok(ExitCode::from(2));
    }
    let package = format!("heaplab-study-{name}");
    let built = built(&["heaplab", &package])?;
    let mut command = Command::new(built.join(&package));
    command.args(&arguments[1..]).env("HEAPLAB", built.join("heaplab"));
    ran(&mut command)
}

/// Runs the benchmark named by the first argument, with the other arguments.
///
/// # Errors
/// It does not build.
pub fn bench(arguments: &[OsString]) -> Result<ExitCode> {
    ran(Command::new(built(&["heaplab-bench"])?.join("heaplab-bench")).args(arguments))
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Names of the folders that hold claims.
fn studies() -> Result<Vec<String>> {
    let folder = root().join("studies");
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.join("claims.toml").is_file() {
            names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Builds the packages in release and returns the folder of their programs.
fn built(packages: &[&str]) -> Result<PathBuf> {
    let mut command = Command::new(cargo_program());
    command.args(["build", "--release", "--quiet", "--locked"]).current_dir(root());
    for package in packages {
        command.args(["--package", package]);
    }
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("{} cannot be built ({status})", packages.join(", "));
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    Ok(target.join("release"))
}

fn ran(command: &mut Command) -> Result<ExitCode> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_has_a_crate() {
        let names = studies().unwrap();
        assert!(names.iter().any(|name| name == "firefox-memory"), "{names:?}");
        for name in names {
            let manifest = root().join("studies").join(&name).join("Cargo.toml");
            let text = std::fs::read_to_string(&manifest).unwrap();
            assert!(text.contains(&format!("name = \"heaplab-study-{name}\"")), "{name}");
        }
    }

    #[test]
    fn a_study_that_is_not_there_is_asked_wrongly() {
        let code = study(&["firefox".into()]).unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(2)));
    }
}
