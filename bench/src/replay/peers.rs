//! Other drivers that replay a workload of mallocs, on the same workload and on the system's glibc,
//! in turns with ours.
//!
//! - **memory_replay**, Android's (platform/system/extras, memory_replay): reads all calls first,
//!   then hands each to a thread of its own and waits for it. It takes a call's time with two clock
//!   readings around the call and the first touch of its pages.
//! - **trace_run**, glibc's (its malloc trace utilities; allocbench carries a copy as
//!   benchmarks/dj_trace/trace_run.c): reads calls as it goes and writes every block whole. It
//!   takes a call's time with two serialized readings of the processor's counter, which a virtual
//!   machine's host must serve.
//!
//! "In calls" is the calls' time by the driver's own account; "driver" is the rest of the replaying
//! process's CPU time. Ours is not timed call by call: its driver is a replay on the null heap, and
//! its calls are the additional time of a replay on glibc.

use super::formats;
use crate::measure::{Spread, Used, run as run_command};
use anyhow::{Context, Result, bail};
use heaplab_trace::program::Program;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Where peers are.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Android's memory_replay [default: where PATH has it]
    #[arg(long, value_name = "PATH")]
    memory_replay: Option<PathBuf>,
    /// glibc's trace_run [default: where PATH has it]
    #[arg(long, value_name = "PATH")]
    trace_run: Option<PathBuf>,
    /// Repetitions of the recorded workload in turns with the peers, which take seconds to minutes
    /// each
    #[arg(long, default_value_t = 3)]
    peer_reps: usize,
}

/// One replay, ns an event.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    in_calls: f64,
    driver: f64,
    wall: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    MemoryReplay,
    TraceRun,
}

/// A peer and its file of the workload.
struct Ready {
    peer: Peer,
    name: &'static str,
    path: PathBuf,
    file: PathBuf,
}

/// Replays the program with every available driver and prints the costs.
pub fn bench(name: &str, program: &Program, args: &Args) -> Result<()> {
    if args.peer_reps == 0 {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let peers = ready(program, args, folder.path())?;
    let events = program.facts().events as f64;
    let mut rows: Vec<Vec<Figures>> = Vec::new();
    for _ in 0..args.peer_reps {
        let mut row = vec![ours(program)?];
        for peer in &peers {
            row.push(peer.run(events).with_context(|| peer.name.to_string())?);
        }
        rows.push(row);
    }
    println!(
        "\n{name} on glibc, {events:.0} events, ns an event: median (range) of {}",
        args.peer_reps
    );
    println!(
        "{:<13} {:>21} {:>22} {:>22}",
        "driver", "in calls", "driver, CPU", "all, by the clock"
    );
    let names = ["heaplab"].into_iter().chain(peers.iter().map(|peer| peer.name));
    for (place, name) in names.enumerate() {
        let spread = |of: fn(&Figures) -> f64| {
            let Spread { median, least, most } = Spread::of(rows.iter().map(|row| of(&row[place])));
            let digits = if median < 1000.0 { 1 } else { 0 };
            format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
        };
        println!(
            "{name:<13} {:>21} {:>22} {:>22}",
            spread(|f| f.in_calls),
            spread(|f| f.driver),
            spread(|f| f.wall)
        );
    }
    Ok(())
}

/// The available peers, each with the workload in its format; prints which are missing.
fn ready(program: &Program, args: &Args, folder: &Path) -> Result<Vec<Ready>> {
    let mut peers = Vec::new();
    let known = [
        (Peer::MemoryReplay, "memory_replay", "--memory-replay", &args.memory_replay),
        (Peer::TraceRun, "trace_run", "--trace-run", &args.trace_run),
    ];
    for (peer, name, option, given) in known {
        let Some(path) = given.clone().or_else(|| in_path(name)) else {
            println!(
                "{name} is neither in PATH nor named with {option}: left out (docs/benchmarks.md says what it is)"
            );
            continue;
        };
        let file = folder.join(format!("{name}.workload"));
        let mut out = BufWriter::new(File::create(&file)?);
        match peer {
            Peer::MemoryReplay => formats::memory_replay(program, &mut out)?,
            Peer::TraceRun => formats::trace_run(program, &mut out)?,
        }
        out.flush()?;
        let path = path.canonicalize().with_context(|| format!("{option} {}", path.display()))?;
        peers.push(Ready { peer, name, path, file });
    }
    Ok(peers)
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Our driver in fresh processes, as in `heaplab replay`: the null heap, then glibc, one pass each.
fn ours(program: &Program) -> Result<Figures> {
    let events = program.facts().events as f64;
    let pass = |heap: &str| -> Result<(f64, f64)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["replay", "--cell", heap, "--program"]).arg(program.path());
        let begun = Instant::now();
        let output = command.output()?;
        let wall = begun.elapsed().as_nanos() as f64 / events;
        if !output.status.success() {
            bail!("the replay on {heap} failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok((String::from_utf8(output.stdout)?.trim().parse::<u64>()? as f64 / events, wall))
    };
    let (driver, _) = pass("null")?;
    let (all, wall) = pass("glibc")?;
    Ok(Figures { in_calls: all - driver, driver, wall })
}

impl Ready {
    fn run(&self, events: f64) -> Result<Figures> {
        let printed = self.file.with_extension("out");
        let mut command = Command::new(&self.path);
        command
            .arg(&self.file)
            .stdin(Stdio::null())
            .stdout(File::create(&printed)?)
            .stderr(Stdio::null());
        let begun = Instant::now();
        let used: Used = run_command(&mut command)?;
        let wall_ns = begun.elapsed().as_nanos() as f64;
        let text = std::fs::read_to_string(&printed)?;
        let in_calls_ns = match self.peer {
            Peer::MemoryReplay => memory_replay_ns(&text),
            Peer::TraceRun => {
                let (calls, ns) = trace_run_calls(&text)
                    .context("it printed no \"Total call time\" and no calls")?;
                if calls != events as u64 {
                    bail!("it made {calls} calls, the workload has {events}");
                }
                Some(ns)
            }
        };
        let in_calls_ns =
            in_calls_ns.with_context(|| format!("it printed no time of its calls, but: {text}"))?;
        // memory_replay reads its file in child processes before it replays.
        let cpu_ns = (used.cpu_s - used.children_s) * 1e9;
        Ok(Figures {
            in_calls: in_calls_ns / events,
            driver: (cpu_ns - in_calls_ns) / events,
            wall: wall_ns / events,
        })
    }
}

/// Parses `Total Allocation/Free Time: 123ns 0.00s`.
fn memory_replay_ns(text: &str) -> Option<f64> {
    let rest = text.split_once("Total Allocation/Free Time: ")?.1;
    rest.split_once("ns")?.0.parse().ok()
}

/// Parses the number of calls and their time, ns, from `1,000 cycles`, `10 usec wall time`, `Avg
/// malloc time: 90 in 5 calls` and `Total call time: 900 cycles`.
fn trace_run_calls(text: &str) -> Option<(u64, f64)> {
    let number = |text: &str| text.trim().replace(',', "").parse::<u64>().ok();
    let before = |end: &str| text.lines().find_map(|line| number(line.strip_suffix(end)?));
    let (cycles, wall_us) = (before(" cycles")?, before(" usec wall time")?);
    let total = text.lines().find_map(|line| {
        number(line.strip_prefix("Total call time: ")?.strip_suffix(" cycles")?)
    })?;
    let mut calls = 0;
    for line in text.lines().filter(|line| line.starts_with("Avg ")) {
        let (time, count) = line.split_once(" in ")?;
        // A kind without calls is printed as one call with no time.
        if number(time.rsplit_once(' ')?.1)? > 0 {
            calls += number(count.strip_suffix(" calls")?)?;
        }
    }
    Some((calls, total as f64 * wall_us as f64 * 1e3 / cycles as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_print_is_read() {
        assert_eq!(
            memory_replay_ns("Final Native RSS: 1\nTotal Allocation/Free Time: 19369ns 0.00s\n"),
            Some(19369.0)
        );
        assert_eq!(memory_replay_ns("Total Allocation"), None);
        let text = "2,000,000 cycles\n1,000 usec wall time\n7 usec across 1 thread\n\n\
                    Avg malloc time:    100 in      1,500 calls\nAvg calloc time:      0 in          1 calls\n\
                    Avg realloc time:    90 in         10 calls\nAvg free time:       80 in      1,490 calls\n\
                    Total call time: 270,100 cycles\n";
        assert_eq!(trace_run_calls(text), Some((3000, 135_050.0)));
        assert_eq!(trace_run_calls("2,000 cycles\n"), None);
    }
}
