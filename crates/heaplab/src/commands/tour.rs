//! `heaplab tour`, and `cargo run` in the repository: the bundled recording of SQLite, its
//! findings, its replay on every built-in heap, and the page.
//!
//! It prints each command as a user would type it and runs this command, so that the tour shows
//! the real output.

use crate::bundled;
use anyhow::{Context, Result};
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
    /// Timed repetitions of the replay on each heap; 0: measure space only
    #[arg(long, default_value_t = REPS, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    reps: u32,
}

/// Timed repetitions: enough to show the difference of one heap at 95 %, whatever the others show.
/// With fewer, one block on a busy machine hides all differences, however large.
const REPS: u32 = 9;

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
    let heaps = crate::heaps::FAMILIES.built_in().join(",");
    let reps = args.reps.to_string();
    let measured: &[&str] = if args.reps == 0 { &["--space"] } else { &["--reps", &reps] };
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

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_experiment::comparison::blocks_needed_for;

    #[test]
    fn the_tour_repeats_as_often_as_its_heaps_need() {
        assert_eq!(
            REPS,
            blocks_needed_for(0.95, crate::heaps::FAMILIES.built_in().len() as u32 - 1)
        );
    }
}
