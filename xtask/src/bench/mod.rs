//! Measurements whose figures stand in docs/benchmarks.md: one file a benchmark, peers in the same run.

mod bundle;
mod elastic;
mod jvm;
mod measure;
mod reading;
mod recorder;
mod release;
mod replay;
mod report;
mod snapshot;
mod snapshot_limits;
mod snapshot_write;

use clap::{Args as ClapArgs, Subcommand};

/// Arguments of `cargo xtask bench`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Bytes and time an event when a bundle is written, column by column
    Bundle(bundle::Args),
    /// Time an event when a bundle is read, and whether memory grows with its length
    Reading(reading::Args),
    /// Time an event of the replay driver, and of heaps beside it
    Replay(replay::Args),
    /// Time an event of the pass behind a report, and whether its memory grows with the events
    Report(report::Args),
    /// Space and time of elastic arenas, beside bumpalo, mallocs, talloc and HotSpot's arenas
    Elastic(elastic::Args),
    /// CPU time and memory that recording adds, beside heaptrack
    Recorder(recorder::Args),
    /// Time that recording a JVM's metaspace adds, beside the JVM logging to a file
    Jvm(jvm::Args),
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

/// Runs the benchmark that was named.
pub fn run(args: Args) -> anyhow::Result<()> {
    match &args.benchmark {
        Benchmark::Bundle(args) => bundle::run(args),
        Benchmark::Reading(args) => reading::run(args),
        Benchmark::Replay(args) => replay::run(args),
        Benchmark::Report(args) => report::run(args),
        Benchmark::Elastic(args) => elastic::run(args),
        Benchmark::Recorder(args) => recorder::run(args),
        Benchmark::Jvm(args) => jvm::run(args),
        Benchmark::SnapshotWrite(args) => snapshot_write::run(args),
        Benchmark::Snapshot(args) => snapshot::run(args),
        Benchmark::SnapshotLimits(args) => snapshot_limits::run(args),
        Benchmark::Child(args) => measure::child(args),
    }
}
