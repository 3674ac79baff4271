//! The measurements in docs/benchmarks.md: one file or folder a benchmark, with peers in the same
//! run if there are any.
//!
//! | benchmark | peers |
//! |---|---|
//! | recorder, bundle | heaptrack |
//! | report-calls | none: the recorder with and without reports |
//! | reading | DuckDB and pyarrow on the same file, heaptrack_print |
//! | report | heaptrack_print |
//! | page | none in the run |
//! | replay | Android's memory_replay, glibc's trace_run |
//! | elastic | bumpalo, mallocs, talloc, HotSpot's arenas |
//! | jvm | the JVM's own log |
//! | ocaml, ocaml-equal | the real OCaml runtime |
//! | v8 | mimalloc, the real V8 of a Node |
//! | snapshot | DevTools' worker, memlab, VS Code's parser, heap-snapshot |
//! | snapshot-write, snapshot-limits | none in the run: what others took stands in the text |
//!
//! docs/benchmarks.md says where to get each peer. A missing peer is left out with a line that says
//! so.

mod bounds;
mod bundle;
mod elastic;
mod jvm;
mod measure;
mod ocaml;
mod page;
mod programs;
mod readers;
mod reading;
mod recorder;
mod recorder_starts;
mod recorder_table;
mod replay;
mod report;
mod report_calls;
mod sign_test;
mod snapshot;
mod snapshot_limits;
mod snapshot_write;
mod v8;

use clap::{Parser, Subcommand};

/// Measurements of heaplab, with peers in the same run
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", max_term_width = 80)]
struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Bytes an event of a recording and time to write it, beside heaptrack's files
    Bundle(bundle::Args),
    /// Time an event when a bundle is read, beside DuckDB and heaptrack_print
    Reading(reading::Args),
    /// Time an event of the replay driver and of heaps, beside other replay drivers
    Replay(replay::Args),
    /// Time an event of a report, beside heaptrack_print, and whether its memory grows
    Report(report::Args),
    /// Size of the page of 12 million events, and how soon Chromium paints it
    Page(page::Args),
    /// Space and time of elastic arenas, beside bumpalo, mallocs, talloc and HotSpot's arenas
    Elastic(elastic::Args),
    /// CPU time and memory that recording adds, beside heaptrack
    Recorder(recorder::Args),
    /// Cost of a memory reporter's call for each block, recorded and not
    ReportCalls(report_calls::Args),
    /// Time that recording a JVM's metaspace adds, beside the JVM logging to a file
    Jvm(jvm::Args),
    /// OCaml's heap beside the real runtime: instructions, replays, first-fit's slow corner
    Ocaml(ocaml::Args),
    /// OCaml's heap beside the real runtime: every counter, every slice, where every object lies
    OcamlEqual(ocaml::equal::Args),
    /// Instructions, time and memory of V8's old space, beside mimalloc and the real V8
    V8(v8::Args),
    /// Writing heap snapshots: Generator and Writer, the strings' table, line ends, CPython's heap
    SnapshotWrite(snapshot_write::Args),
    /// Time and memory to read and analyse a heap snapshot, beside other programs
    Snapshot(snapshot::Args),
    /// Heap snapshots beyond DevTools' limits: 2^29 characters of strings, 2^32 edge fields
    SnapshotLimits(snapshot_limits::Args),
    /// Runs a program and writes down what it used
    #[command(hide = true)]
    Child(measure::ChildArgs),
}

/// Parses a number of repetitions; the command line is checked before anything is built.
fn one_or_more(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "a whole number, 1 or more".into())
}

/// Parses a file or folder to read; the command line is checked before anything is built.
fn existing(text: &str) -> Result<std::path::PathBuf, String> {
    std::fs::metadata(text).map(|_| text.into()).map_err(|error| error.to_string())
}

fn main() -> std::process::ExitCode {
    match run(&Args::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    match &args.benchmark {
        Benchmark::Bundle(args) => bundle::run(args),
        Benchmark::Reading(args) => reading::run(args),
        Benchmark::Replay(args) => replay::run(args),
        Benchmark::Report(args) => report::run(args),
        Benchmark::Page(args) => page::run(args),
        Benchmark::Elastic(args) => elastic::run(args),
        Benchmark::Recorder(args) => recorder::run(args),
        Benchmark::ReportCalls(args) => report_calls::run(args),
        Benchmark::Jvm(args) => jvm::run(args),
        Benchmark::Ocaml(args) => ocaml::run(args),
        Benchmark::OcamlEqual(args) => ocaml::equal::run(args),
        Benchmark::V8(args) => v8::run(args),
        Benchmark::SnapshotWrite(args) => snapshot_write::run(args),
        Benchmark::Snapshot(args) => snapshot::run(args),
        Benchmark::SnapshotLimits(args) => snapshot_limits::run(args),
        Benchmark::Child(args) => measure::child(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_is_sound() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }
}
