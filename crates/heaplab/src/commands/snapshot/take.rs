//! `heaplab snapshot take`: a snapshot of a running Node or Chromium, streamed to disk.

use super::table::one_line;
use super::target::Target;
use crate::terminal;
use anyhow::Result;
use heaplab_capture::take::{self, Progress, Request, Taken};
use heaplab_capture::{CaptureError, Connection};
use heaplab_findings::words::{bytes, count};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `heaplab snapshot take`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab snapshot take --node 4711 -o a.heapsnapshot
  heaplab snapshot take --node ws://127.0.0.1:9229/5c3f... -o a.heapsnapshot
  heaplab snapshot take --chromium 9222 --page shop -o a.heapsnapshot

A Node that does not listen yet is asked to (SIGUSR1). The program stands still
meanwhile. heaplab writes what it receives, so that its own memory stays small;
the target's does not: V8 needs several times the heap. What came before the
target died is kept as FILE.part; `heaplab snapshot validate` says how far that
is good.")]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The file to write; it is replaced when the new one is complete
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Numbers as objects of their own, so that their values can be seen
    #[arg(long)]
    numbers: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Write what was done as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let (mut connection, title) = args.target.connect()?;
    let quiet = args.quiet || args.json;
    let taken = with_progress(&mut connection, &args.output, Request { numbers: args.numbers }, quiet)?;
    if args.json {
        println!("{}", serde_json::to_string(&taken_json(&taken))?)?;
    } else {
        print!("{}", terminal::paragraph(&line(&taken, &title), "", 2, terminal::columns()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes a snapshot, and shows on a terminal how far it is.
pub fn with_progress(connection: &mut Connection, path: &Path, request: Request, quiet: bool) -> Result<Taken, CaptureError> {
    let bar = if quiet || !std::io::stderr().is_terminal() { ProgressBar::hidden() } else { ProgressBar::new(1) };
    let walking = ProgressStyle::with_template("{msg} {wide_bar} {percent} %").expect("the template is right");
    let receiving = ProgressStyle::with_template("{spinner} {msg}").expect("the template is right");
    bar.set_style(receiving.clone());
    bar.set_message("the target collects garbage");
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut began = None;
    let taken = take::take(connection, path, request, &mut |progress| match progress {
        Progress::Walking { done, total } => {
            bar.set_style(walking.clone());
            bar.set_length(total.max(done));
            bar.set_position(done);
            bar.set_message(format!("the target walks its heap: {} objects", count(done)));
        }
        Progress::Receiving { bytes: received } => {
            let began = began.get_or_insert_with(std::time::Instant::now);
            let rate = received as f64 / began.elapsed().as_secs_f64().max(1e-3);
            bar.set_style(receiving.clone());
            bar.set_message(format!("receiving: {} ({}/s)", bytes(received), bytes(rate as u64)));
        }
    });
    bar.finish_and_clear();
    taken
}

/// What was done, in words.
pub fn line(taken: &Taken, title: &str) -> String {
    format!(
        "{}: {} from {}; the target walked its heap for {:.1} s and sent for {:.1} s",
        taken.path.display(),
        bytes(taken.bytes),
        one_line(title),
        taken.walking.as_secs_f64(),
        taken.receiving.as_secs_f64()
    )
}

/// What was done, for machines.
pub fn taken_json(taken: &Taken) -> Value {
    json!({
        "format": "heaplab-snapshot-take",
        "version": 1,
        "file": taken.path.to_string_lossy(),
        "bytes": taken.bytes,
        "walking_s": taken.walking.as_secs_f64(),
        "receiving_s": taken.receiving.as_secs_f64(),
    })
}
