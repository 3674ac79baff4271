//! A program's recording read and analysed, by heaplab and by heaptrack's own reader, in turns.
//!
//! Both read their own recorder's files of the same program (`traces/sqlite-workload.sql`, several
//! times over). heaptrack_print cannot read without analysing; decompressing its file is a lower
//! bound on its reading. It prints the stacks behind most calls, behind the peak and behind
//! short-lived blocks. A report of heaplab has sizes and slop, its findings with their stacks, and
//! the stacks behind the peak and the end.
//!
//! A bundle's events are Parquet, so readers of Parquet are peers too. DuckDB and pyarrow decode
//! the same file on one thread, in a Python that has them (`HEAPLAB_PYTHON`, as for the tests).
//! They count their own CPU time, from the moment they are loaded.

use super::measure::{Spread, Used, run as run_command};
use super::programs::{self, Heaptrack};
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The readers of the recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Reads every event of the bundle and only adds sizes up.
    Events,
    /// The same, and checks the order of events.
    Verified,
    /// `heaplab report`.
    Report,
    /// Every column of the bundle's events by DuckDB.
    DuckDb,
    /// The same by pyarrow.
    Pyarrow,
    /// `zstd -dc` of heaptrack's file.
    Decompressed,
    /// `heaptrack_print`.
    HeaptrackPrint,
}

impl Reader {
    const fn name(self) -> &'static str {
        match self {
            Reader::Events => "heaplab, every event",
            Reader::Verified => "heaplab, order verified",
            Reader::Report => "heaplab report",
            Reader::DuckDb => "DuckDB, every column",
            Reader::Pyarrow => "pyarrow, every column",
            Reader::Decompressed => "heaptrack's file, zstd -dc",
            Reader::HeaptrackPrint => "heaptrack_print",
        }
    }

    /// Whether it reads heaptrack's file.
    const fn is_heaptrack(self) -> bool {
        matches!(self, Reader::Decompressed | Reader::HeaptrackPrint)
    }

    /// For a reader in Python: the module that it needs, and its script. The script gets the file
    /// as its argument and prints its own CPU time, s.
    const fn script(self) -> Option<(&'static str, &'static str)> {
        match self {
            Reader::DuckDb => Some(("duckdb", DUCKDB)),
            Reader::Pyarrow => Some(("pyarrow.parquet", PYARROW)),
            _ => None,
        }
    }

    fn command(self, heaplab: &Path, bundle: &Path, file: &Path) -> Result<Command> {
        let xtask = |options: &[&str]| -> Result<Command> {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("reading").args(options).arg("--read").arg(bundle);
            Ok(command)
        };
        Ok(match self {
            Reader::Events => xtask(&[])?,
            Reader::Verified => xtask(&["--verify"])?,
            Reader::Report => {
                let mut command = Command::new(heaplab);
                command.arg("report").arg(bundle);
                command
            }
            Reader::DuckDb | Reader::Pyarrow => {
                let mut command = Command::new(python());
                let (_, script) = self.script().context("a script")?;
                command.args(["-c", script]).arg(bundle.join("events.parquet"));
                command
            }
            Reader::Decompressed => {
                let mut command = Command::new("zstd");
                command.arg("-dc").arg(file);
                command
            }
            Reader::HeaptrackPrint => {
                let mut command = Command::new("heaptrack_print");
                command.arg("-f").arg(file);
                command
            }
        })
    }
}

/// Takes the largest value of each column, because a column that nobody reads is not decoded.
const DUCKDB: &str = "
import duckdb, sys, time
db = duckdb.connect()
db.execute('SET threads = 1')
begun = time.process_time()
db.execute('SELECT max(COLUMNS(*)) FROM read_parquet(?)', [sys.argv[1]]).fetchall()
print(time.process_time() - begun)
";

const PYARROW: &str = "
import pyarrow.parquet, sys, time
begun = time.process_time()
for batch in pyarrow.parquet.ParquetFile(sys.argv[1]).iter_batches(use_threads=False):
    pass
print(time.process_time() - begun)
";

fn python() -> PathBuf {
    std::env::var_os("HEAPLAB_PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

/// Whether the reader's Python has the module. Prints a line if not.
fn is_installed(reader: &Reader) -> bool {
    let Some((module, _)) = reader.script() else { return true };
    let python = python();
    let found = Command::new(&python)
        .args(["-c", &format!("import {module}")])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        println!(
            "{} has no {module}: left out (HEAPLAB_PYTHON names a Python that has it)",
            python.display()
        );
    }
    found
}

/// The way of measuring.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Repetitions of reading a program's recording, in turns with heaptrack
    #[arg(long, default_value_t = 5, value_parser = super::one_or_more)]
    reps: usize,
    /// Times that the recorded program does its work
    #[arg(long, default_value_t = 4, value_parser = super::one_or_more)]
    times: usize,
    /// The heaplab to record and report with [default: a release build of this tree]
    #[arg(long, value_parser = super::existing)]
    heaplab: Option<PathBuf>,
}

/// Records the program twice, and runs and prints `readers` on the recordings.
pub fn bench(readers: &[Reader], args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let heaplab = programs::heaplab(args.heaplab.as_deref())?;
    let program = programs::sqlite(folder.path(), args.times)?;
    let (bundle, file) =
        (folder.path().join("recorded.heaplab"), folder.path().join("heaptrack.zst"));
    let (_, events) = programs::record(&heaplab, 64, &program, &program.command, &bundle)?;
    let mut readers = readers.to_vec();
    match Heaptrack::find() {
        Some(heaptrack) => {
            let raw = folder.path().join("heaptrack.raw");
            heaptrack.record(&program, &raw)?;
            heaptrack.finish(&raw, &file)?;
        }
        None => readers.retain(|reader| !reader.is_heaptrack()),
    }
    readers.retain(is_installed);
    let mut rows: Vec<Vec<Used>> = Vec::new();
    for _ in 0..args.reps {
        let used = |reader: &Reader| {
            let mut command = reader.command(&heaplab, &bundle, &file)?;
            let printed = folder.path().join("printed");
            let out = if reader.script().is_some() {
                File::create(&printed)?.into()
            } else {
                Stdio::null()
            };
            let used = run_command(command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()))?;
            let cpu_s = match reader.script() {
                Some(_) => std::fs::read_to_string(printed)?
                    .trim()
                    .parse()
                    .context("the script's own CPU time")?,
                None => used.cpu_s,
            };
            Ok(Used { cpu_s, ..used })
        };
        rows.push(readers.iter().map(used).collect::<Result<_>>()?);
    }
    println!(
        "{}, {events} events, recorded at depth 64; median (range) of {}",
        program.name, args.reps
    );
    println!("{:<28} {:>28} {:>20}", "", "CPU, ns an event", "peak resident, kB");
    for (place, reader) in readers.iter().enumerate() {
        let time =
            Spread::of(rows.iter().map(|row| row[place].cpu_s / events as f64 * 1e9)).to_string();
        let resident = Spread::of(rows.iter().map(|row| row[place].resident_kib as f64)).median;
        println!("{:<28} {time:>28} {resident:>20}", reader.name());
    }
    Ok(())
}
