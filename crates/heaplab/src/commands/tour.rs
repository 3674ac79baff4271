//! `heaplab tour`, and `cargo run` in the repository: the bundled recording of SQLite, its
//! findings, its replay on every built-in heap, and the page.
//!
//! It prints each command as a user would type it and runs this command, so that the tour shows
//! the real output.

use crate::bundled;
use crate::heaps::FAMILIES;
use anyhow::{Context, Result};
use heaplab_experiment::comparison::blocks_needed_for;
use heaplab_terminal as terminal;
use heaplab_text::lines;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/tour.txt"))]
pub struct Args {
    /// The folder for the recording and the page; created if missing
    #[arg(long, default_value = "heaplab-tour", value_name = "DIR")]
    into: PathBuf,
    /// Timed repetitions of the replay on each heap; 0: measure space only [default: enough to show
    /// the difference of one heap at 95 %, whatever the others show]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    reps: Option<u32>,
}

/// The heaps of the tour, explained.
const EVERY_HEAP: &str = "The same workload on every heap that is built in, about a minute. elastic and bump are arena libraries, metaspace:* is how JVMs \
                          keep classes: made for memory that dies all at once with its owner. SQLite's blocks have no such owner and lie in one arena, so \
                          that bump gives none of them back, and the others use a freed block again only for one that fits into it.";

pub fn run(args: Args) -> Result<ExitCode> {
    let recording = args.into.join("sqlite.heaplab");
    let page = args.into.join("report.html");
    bundled::unpack_sqlite(&recording)?;
    let what = "heaplab records what a program allocates, says where the bytes go, and runs the same workload on other heaps. \
                This is a recording of sqlite3 that it carries (traces/sqlite-tour.sql). Its report:";
    println!("{}", lines::paragraph(what, "", 0, terminal::columns()))?;
    step(&["report", text(&recording)?])?;
    println!("\n{}", lines::paragraph(EVERY_HEAP, "", 0, terminal::columns()))?;
    let heaps = FAMILIES.built_in();
    // With fewer blocks, one on a busy machine hides all differences, however large.
    let reps = args.reps.unwrap_or_else(|| blocks_needed_for(0.95, heaps.len() as u32 - 1));
    let (heaps, measured) = (heaps.join(","), reps.to_string());
    let measured: &[&str] = if reps == 0 { &["--space"] } else { &["--reps", &measured] };
    step(&[&["replay", text(&recording)?, "--on", &heaps], measured].concat())?;
    println!("\nAll of it as one page, to open in a browser:\n")?;
    step(&["report", text(&recording)?, "--html", text(&page)?])?;
    println!(
        "\nYour own program next:\n  heaplab record -o app.heaplab -- PROGRAM ARGUMENTS\n  heaplab report app.heaplab --html app.html"
    )?;
    Ok(ExitCode::SUCCESS)
}

fn step(arguments: &[&str]) -> Result<()> {
    println!("$ heaplab {}\n", arguments.join(" "))?;
    crate::run_line(&[&["heaplab"], arguments].concat()).map(|_| ())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| {
        format!(
            "{}: the tour needs a folder whose name is UTF-8; choose one with --into",
            path.display()
        )
    })
}
