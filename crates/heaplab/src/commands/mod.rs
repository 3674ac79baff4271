//! One file a command: its arguments, a call into the libraries, its output.

use anyhow::{Context, Result};
use heaplab_record::interrupts;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

pub mod about;
pub mod check;
pub mod compare;
pub mod curve;
pub mod export;
pub mod generate;
pub mod heaps;
pub mod import;
pub mod mark;
pub mod pressure;
pub mod record;
pub mod recording;
pub mod recover;
pub mod replay;
pub mod report;
pub mod shell;
pub mod snapshot;
pub mod sweep;
pub mod symbolize;
pub mod tour;
pub mod track;
pub mod what_if;

/// This program's own file: each cell is a process of it.
fn own_file() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// Runs `work`, which a signal may end early; the measurements until then are kept. After a signal
/// the command ends with the signal's code and prints the error of `work`.
fn interrupted(work: impl FnOnce(&AtomicBool) -> Result<ExitCode>) -> Result<ExitCode> {
    let (ended, signal) = interrupts::flagged(work);
    let Some(signal) = signal else { return ended };
    if let Err(error) = ended {
        eprintln!("heaplab: {error:#}");
    }
    Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)))
}

/// Parses a time limit or a pause of a command line, in seconds.
fn seconds(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|seconds| range.contains(seconds));
    parsed.ok_or_else(|| format!("seconds from {} to {} are expected", range.start(), range.end()))
}
