//! `cargo xtask bench snapshot FILE`: time and memory to read a heap snapshot and to compute
//! everything in its summary, beside other programs. `--copies K` does the same for a ladder file,
//! K copies under one root, and checks that every class has K times its figures. With `--program`
//! the command line opens that file, of any size. Each figure has a bound; a missed bound is an
//! error.
//!
//! Each measurement is a process of its own, and the programs take turns, so that a busy machine is
//! busy for all of them. Before each measurement another process touches as much memory as the
//! largest one needs, and gives it back when the measured process has mapped its file
//! ([`prepare`]). Memory is the resident bytes beside the mapped file; for other programs it is all
//! resident bytes.

mod ladder;
mod large;
mod measurement;
mod page;
mod peers;
mod prepare;
mod tables;

use super::bounds::Bounds;
use anyhow::{Context, Result, ensure};
use measurement::{ALL, Measured, One};
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
    /// Also a file of that many copies under one root, written beside the snapshot and removed
    /// again
    #[arg(long)]
    copies: Option<u32>,
    /// Where that file is written instead
    #[arg(long)]
    ladder: Option<PathBuf>,
    /// Times each measurement is repeated
    #[arg(long, default_value_t = 5, value_parser = super::one_or_more)]
    reps: usize,
    /// Another program to run on the file: devtools, memlab, v8-heap-parser, dinfuehr, or all of
    /// them, where studies/heap-snapshots/README.md says to install them; or `NAME=COMMAND
    /// ARGUMENT...`, `{}` for the file
    #[arg(long)]
    peer: Vec<String>,
    /// Times other programs are run; as often as ours if not given
    #[arg(long)]
    peer_reps: Option<usize>,
    /// No measurements: this heaplab opens the ladder file, as a process, and every figure of its
    /// summary is checked. `--copies 10` of a file of 436 MB is one beyond 4 GB
    #[arg(long, value_name = "HEAPLAB", requires = "copies", value_parser = super::existing)]
    program: Option<PathBuf>,
    /// No measurements but these: each answer of the page that `heaplab snapshot open --serve`
    /// shows
    #[arg(long)]
    page: bool,
    /// Measure one thing in this process, when the input ends, and print it as JSON
    #[arg(long, hide = true)]
    one: Option<One>,
}

/// The line of a process that is ready to measure.
const READY: &str = "ready";

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if let Some(one) = args.one {
        let begin = || {
            println!("{READY}");
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        };
        println!("{}", serde_json::to_string(&measurement::measure(one, &args.file, begin)?)?);
        return Ok(());
    }
    if let (Some(program), Some(copies)) = (&args.program, args.copies) {
        let ladder = args.ladder.clone().unwrap_or_else(|| args.file.with_extension("ladder"));
        return large::run(program, &args.file, &ladder, copies);
    }
    if args.page {
        return page::run(&args.file, args.reps);
    }
    let peers = &peers::find(&args.peer)?;
    let mut bounds = Bounds::default();
    let Some(copies) = args.copies else {
        let measured = in_turns(args, peers, &[&args.file])?;
        tables::print(args, peers, &args.file, &measured[0])?;
        tables::bounds(&mut bounds, &args.file, &measured[0])?;
        return bounds.finish();
    };
    let ladder = args.ladder.clone().unwrap_or_else(|| args.file.with_extension("ladder"));
    let measured = ladder::write(&args.file, &ladder, copies).and_then(|()| {
        println!("{copies} copies, every class's figures {copies} times those of one: checked\n");
        let measured = in_turns(args, peers, &[&args.file, &ladder])?;
        tables::print(args, peers, &args.file, &measured[0])?;
        tables::print(args, peers, &ladder, &measured[1])?;
        Ok(measured)
    });
    std::fs::remove_file(&ladder).ok();
    let measured = measured?;
    tables::print_growth(peers, copies, &measured);
    tables::bounds(&mut bounds, &args.file, &measured[0])?;
    tables::ladder_bounds(&mut bounds, copies, &measured);
    bounds.finish()
}

/// All measurements on one file, in the order of [`ALL`], then those of the peers.
type Table = Vec<Vec<Measured>>;

/// Measures everything on every file, in turns.
fn in_turns(args: &Args, peers: &[Peer], files: &[&Path]) -> Result<Vec<Table>> {
    let prepared_bytes = prepare::needed_bytes(files)?;
    println!(
        "another process touches {:.0} MB before each measurement\n",
        prepared_bytes as f64 / 1e6
    );
    let mut tables: Vec<Table> = vec![vec![Vec::new(); ALL.len() + peers.len()]; files.len()];
    for rep in 0..args.reps {
        for (place, (one, _)) in ALL.iter().enumerate().filter(|(_, (one, _))| one.is_possible()) {
            for (file, table) in files.iter().zip(&mut tables) {
                table[place].push(child(*one, file, prepare::touch(prepared_bytes)?)?);
            }
        }
        for (place, peer) in peers
            .iter()
            .enumerate()
            .filter(|_| args.peer_reps.is_none_or(|peer_reps| rep < peer_reps))
        {
            for (file, table) in files.iter().zip(&mut tables) {
                drop(prepare::touch(prepared_bytes)?);
                table[ALL.len() + place].extend(peer.run(file)?);
            }
        }
    }
    Ok(tables)
}

/// Runs one of our measurements in a process of its own. The prepared memory is given back once
/// this process has mapped the file.
fn child(one: One, file: &Path, prepared: prepare::Prepared) -> Result<Measured> {
    let name = clap::ValueEnum::to_possible_value(&one).context("a measurement with a name")?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["snapshot", "--one", name.get_name()])
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let (begin, said) = (
        child.stdin.take().context("the child's input")?,
        child.stdout.take().context("the child's output")?,
    );
    let mut said = BufReader::new(said);
    // The process prints that it is ready and begins when its input ends. If it dies before, its
    // status tells.
    said.read_line(&mut String::new())?;
    drop(prepared);
    drop(begin);
    let mut answer = String::new();
    said.read_to_string(&mut answer)?;
    ensure!(child.wait()?.success(), "measuring {} failed", file.display());
    Ok(serde_json::from_str(&answer)?)
}
