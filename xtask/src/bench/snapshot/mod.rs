//! `cargo xtask bench snapshot FILE`: time and memory to read a heap snapshot and to compute everything that its summary shows, beside other
//! programs; `--copies K` does it for a ladder file too, K copies under one root, and checks that every class has K times its figures. With `--program` the command line
//! opens that file, of any size.
//!
//! Each measurement is a process of its own, and the programs take turns, so that a busy machine is busy for all of them. Before each, as much memory as
//! the largest needs is touched, by another process, and given back when the measured one has mapped its file, whatever the file ([`prepare`]). Memory is what is resident besides the mapped file; for other programs it
//! is all that is resident.

mod ladder;
mod large;
mod one;
mod peers;
mod prepare;

use super::{measure, release};
use anyhow::{Context, Result, ensure};
use one::{ALL, Measured, One};
use peers::Peer;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `cargo xtask bench snapshot`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A heap snapshot; studies/heap-snapshots/programs makes large ones
    #[arg(value_parser = super::existing)]
    file: PathBuf,
    /// Also a file of that many copies under one root, written beside the snapshot and removed again
    #[arg(long)]
    copies: Option<u32>,
    /// Where that file is written instead
    #[arg(long)]
    ladder: Option<PathBuf>,
    /// Times each measurement is repeated
    #[arg(long, default_value_t = 5, value_parser = super::one_or_more)]
    reps: usize,
    /// Another program to run on the file: devtools, memlab, v8-heap-parser, dinfuehr, or all of them, where studies/heap-snapshots/README.md says to install
    /// them; or `NAME=COMMAND ARGUMENT...`, `{}` for the file
    #[arg(long)]
    peer: Vec<String>,
    /// Times other programs are run; as often as ours if not given
    #[arg(long)]
    peer_reps: Option<usize>,
    /// No measurements: this heaplab opens the ladder file, as a process, and every figure of its summary is checked. `--copies 10` of a file of 436 MB is
    /// one beyond 4 GB
    #[arg(long, value_name = "HEAPLAB", requires = "copies", value_parser = super::existing)]
    program: Option<PathBuf>,
    /// Measure one thing in this process, when the input ends, and print it as JSON
    #[arg(long, hide = true)]
    one: Option<One>,
}

/// What a process says that could begin to measure.
const READY: &str = "ready";

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if let Some(one) = args.one {
        let begin = || {
            println!("{READY}");
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        };
        println!("{}", serde_json::to_string(&one::measure(one, &args.file, begin)?)?);
        return Ok(());
    }
    if release::again()? {
        return Ok(());
    }
    if let (Some(program), Some(copies)) = (&args.program, args.copies) {
        let ladder = args.ladder.clone().unwrap_or_else(|| args.file.with_extension("ladder"));
        return large::run(program, &args.file, &ladder, copies);
    }
    let peers = &peers::find(&args.peer)?;
    let Some(copies) = args.copies else {
        let measured = in_turns(args, peers, &[&args.file])?;
        return print_table(args, peers, &args.file, &measured[0]);
    };
    let ladder = args.ladder.clone().unwrap_or_else(|| args.file.with_extension("ladder"));
    let measured = ladder::write(&args.file, &ladder, copies).and_then(|()| {
        println!("{copies} copies, every class's figures {copies} times those of one: checked\n");
        let measured = in_turns(args, peers, &[&args.file, &ladder])?;
        print_table(args, peers, &args.file, &measured[0])?;
        println!();
        print_table(args, peers, &ladder, &measured[1])?;
        Ok(measured)
    });
    std::fs::remove_file(&ladder).ok();
    print_growth(peers, copies, &measured?);
    Ok(())
}

/// What all measurements gave on one file, in the order of [`ALL`], then of the peers.
type Table = Vec<Vec<Measured>>;

/// Measures everything on every file, in turns.
fn in_turns(args: &Args, peers: &[Peer], files: &[&Path]) -> Result<Vec<Table>> {
    let prepared_bytes = prepare::needed_bytes(files)?;
    println!("another process touches {:.0} MB before each measurement\n", prepared_bytes as f64 / 1e6);
    let mut tables: Vec<Table> = vec![vec![Vec::new(); ALL.len() + peers.len()]; files.len()];
    for rep in 0..args.reps {
        for (place, (one, _)) in ALL.iter().enumerate().filter(|(_, (one, _))| one.is_possible()) {
            for (file, table) in files.iter().zip(&mut tables) {
                table[place].push(child(*one, file, prepare::touch(prepared_bytes)?)?);
            }
        }
        for (place, peer) in peers.iter().enumerate().filter(|_| args.peer_reps.is_none_or(|peer_reps| rep < peer_reps)) {
            for (file, table) in files.iter().zip(&mut tables) {
                drop(prepare::touch(prepared_bytes)?);
                table[ALL.len() + place].extend(peer.run(file)?);
            }
        }
    }
    Ok(tables)
}

/// A row for each measurement.
fn print_table(args: &Args, peers: &[Peer], file: &Path, table: &Table) -> Result<()> {
    let bytes = std::fs::metadata(file).with_context(|| file.display().to_string())?.len();
    println!("{}:\n{:.0} MB, {} repetitions in turns: medians, and the range", file.display(), bytes as f64 / 1e6, args.reps);
    for ((one, name), measured) in ALL.iter().zip(table) {
        let rate = if one.is_reading() && !measured.is_empty() {
            let rate = |of: fn(&Measured) -> f64| bytes as f64 / 1e9 / measured.iter().map(of).fold(f64::INFINITY, f64::min);
            format!("\n    at best {:.2} GB/s of CPU, {:.2} by the clock", rate(|one| one.cpu_s), rate(|one| one.wall_s))
        } else {
            String::new()
        };
        print_row(name, measured, "besides the file", &rate);
    }
    for (peer, measured) in peers.iter().zip(&table[ALL.len()..]) {
        print_row(&peer.name, measured, "in all", "");
    }
    for (place, (one, name)) in ALL.iter().enumerate() {
        if matches!(one, One::Summary | One::SummaryBy2) {
            print_phases(name, *one, &table[place]);
        }
    }
    Ok(())
}

fn spread(measured: &[Measured], of: impl Fn(&Measured) -> f64) -> String {
    let spread = measure::Spread::of(measured.iter().map(of));
    format!("{:.3} ({:.3} to {:.3})", spread.median, spread.least, spread.most)
}

fn print_row(name: &str, measured: &[Measured], memory: &str, more: &str) {
    if measured.is_empty() {
        println!("{name}: skipped, it cannot be run here");
        return;
    }
    let memory_mb = measured.iter().map(|one| one.anonymous_mb).fold(0.0, f64::max);
    println!(
        "{name}:\n    {} s, CPU {} s, of it system {} s\n    {:.0} thousand page faults, peak {memory_mb:.0} MB {memory}{more}",
        spread(measured, |one| one.wall_s),
        spread(measured, |one| one.cpu_s),
        spread(measured, |one| one.system_s),
        measure::Spread::of(measured.iter().map(|one| one.faults as f64 / 1e3)).median,
    );
}

/// CPU time by phase; with two threads, what of it lies on the longest way.
fn print_phases(name: &str, one: One, measured: &[Measured]) {
    let Some(first) = measured.first() else { return };
    let phases = first.phases.iter().map(|(phase, _)| {
        let of = |one: &Measured| one.phases.iter().filter(|(other, _)| other == phase).map(|(_, cpu_s)| cpu_s).sum();
        format!("{phase} {:.3}", measure::Spread::of(measured.iter().map(of)).median)
    });
    println!("{name}, CPU s by phase:");
    for line in phases.collect::<Vec<_>>().chunks(4) {
        println!("    {}", line.join(", "));
    }
    if one == One::SummaryBy2 {
        println!("{name}, CPU s on the longest way through both threads:\n    {}", spread(measured, Measured::critical_s));
    }
}

/// How many times the time of one copy the ladder took, repetition by repetition.
fn print_growth(peers: &[Peer], copies: u32, tables: &[Table]) {
    println!("\n{copies} copies, times one (by repetition: median, and the range)");
    let names = ALL.iter().map(|(_, name)| *name).chain(peers.iter().map(|peer| peer.name.as_str()));
    for (place, name) in names.enumerate().filter(|(place, _)| ALL.get(*place).is_none_or(|(one, _)| *one != One::Index)) {
        let pairs: Vec<(&Measured, &Measured)> = tables[0][place].iter().zip(&tables[1][place]).collect();
        if pairs.is_empty() {
            continue;
        }
        let ratio = |of: fn(&Measured) -> f64| {
            let spread = measure::Spread::of(pairs.iter().map(|(one, many)| of(many) / of(one)));
            format!("{:.2} ({:.2} to {:.2})", spread.median, spread.least, spread.most)
        };
        println!(
            "{name}:\n    CPU {}, user {}, clock {}",
            ratio(|one| one.cpu_s),
            ratio(|one| one.cpu_s - one.system_s),
            ratio(|one| one.wall_s)
        );
    }
}

/// Runs one of our measurements in a process of its own, to which the prepared memory is left when it has mapped the file.
fn child(one: One, file: &Path, prepared: prepare::Prepared) -> Result<Measured> {
    let name = clap::ValueEnum::to_possible_value(&one).context("a measurement with a name")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "snapshot", "--one", name.get_name()]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let (begin, said) = (child.stdin.take().context("the child's input")?, child.stdout.take().context("the child's output")?);
    let mut said = BufReader::new(said);
    // It says that it is ready and begins when its input ends. If it dies before, its status says so.
    said.read_line(&mut String::new())?;
    drop(prepared);
    drop(begin);
    let mut answer = String::new();
    said.read_to_string(&mut answer)?;
    ensure!(child.wait()?.success(), "measuring {} failed", file.display());
    Ok(serde_json::from_str(&answer)?)
}
