//! `heaplab snapshot take`: a snapshot of a running Node or Chromium, streamed to disk.

use super::target::Target;
use super::watch::interval;
use crate::answer;
use anyhow::{Result, bail};
use heaplab_capture::outcome;
use heaplab_capture::take::{self, Progress, Request, Taken};
use heaplab_capture::workers::{self, Worker};
use heaplab_capture::{CaptureError, Connection};
use heaplab_terminal as terminal;
use heaplab_terminal::progress;
use heaplab_text::lines;
use heaplab_text::words::{bytes, count, plural};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-take.txt"))]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The file to write; an existing file is replaced when the new one is complete. Repeat the
    /// option for more snapshots, one each time you press Enter
    #[arg(short, long = "output", value_name = "FILE", required = true)]
    outputs: Vec<PathBuf>,
    /// Take the next snapshot after this time, such as 30s or 5min, instead of waiting for Enter
    #[arg(long, value_name = "TIME", value_parser = interval)]
    every: Option<Duration>,
    /// Take the heap of a worker thread (its number, or a part of its title or address), or all,
    /// which also takes the main thread and writes files such as a.worker-2.heapsnapshot
    #[arg(long, value_name = "NUMBER|TEXT|all")]
    worker: Option<String>,
    /// Include numbers as objects, so that you can see their values
    #[arg(long)]
    numbers: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print a summary as one line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    if let Some((_, twice)) =
        args.outputs.iter().enumerate().find(|(at, path)| args.outputs[..*at].contains(path))
    {
        misasked!("{} is named twice: each snapshot needs a file of its own", twice.display());
    }
    let (mut connection, title) = args.target.connect()?;
    let quiet = args.quiet || args.json;
    let heaps = match heaps(&args, &mut connection) {
        Ok(heaps) => heaps,
        Err(error) => {
            args.target.end(connection);
            return Err(error);
        }
    };
    for (number, path) in args.outputs.iter().enumerate() {
        if number > 0 {
            wait(&args, path)?;
        }
        for worker in &heaps {
            connection.turn_to(worker.as_ref());
            let path = if heaps.len() > 1 {
                outcome::worker_path(path, worker.as_ref())
            } else {
                path.clone()
            };
            let taken =
                with_progress(&mut connection, &path, Request { numbers: args.numbers }, quiet)?;
            let whose = worker.as_ref().map(|worker| format!("worker {worker}"));
            let line = outcome::line(&taken, whose.as_deref().unwrap_or(&title));
            answer::print(
                args.json,
                || outcome::with_worker(outcome::json(&taken), worker.as_ref()),
                || lines::paragraph(&line, "", 0, terminal::columns()),
            )?;
            std::io::stdout().flush().ok();
        }
    }
    args.target.end(connection);
    Ok(ExitCode::SUCCESS)
}

/// The heaps to take, and a note of those that are not asked for.
fn heaps(args: &Args, connection: &mut Connection) -> Result<Vec<Option<Worker>>> {
    let workers = match &args.worker {
        // Whether there are any is only to be mentioned.
        None => connection.workers().unwrap_or_default(),
        Some(_) => connection.workers()?,
    };
    if args.worker.is_none() && !workers.is_empty() && !args.quiet {
        let note = format!(
            "{} with heaps of their own, which are not in this snapshot (--worker takes them):",
            plural(workers.len() as u64, "worker")
        );
        eprint!("{}", lines::paragraph(&note, "heaplab: ", 2, terminal::columns()));
        eprintln!("{}", workers::list(&workers).trim_start_matches('\n'));
    }
    workers::heaps(workers, args.worker.as_deref()).map_err(anyhow::Error::msg)
}

/// Until the next one is due.
fn wait(args: &Args, next: &Path) -> Result<()> {
    if let Some(every) = args.every {
        std::thread::sleep(every);
        return Ok(());
    }
    let prompt = format!("use the program, then press Enter for {}", next.display());
    eprint!("{}", lines::paragraph(&prompt, "heaplab: ", 2, terminal::columns()));
    if std::io::stdin().lock().read_line(&mut String::new())? == 0 {
        bail!(
            "standard input ended before {} was asked for: use --every TIME where nobody presses Enter",
            next.display()
        );
    }
    Ok(())
}

/// Takes a snapshot, and shows on a terminal how far it is.
pub fn with_progress(
    connection: &mut Connection,
    path: &Path,
    request: Request,
    quiet: bool,
) -> Result<Taken, CaptureError> {
    let [walking, receiving] =
        ["{msg} {wide_bar} {percent} %", "{spinner} {msg}"].map(progress::style);
    let bar = progress::spinner(quiet, "the target collects garbage".into());
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
