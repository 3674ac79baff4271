//! `heaplab snapshot take`: a snapshot of a running Node or Chromium, streamed to disk.

use super::target::Target;
use super::watch::interval;
use anyhow::{Result, bail};
use heaplab_capture::take::{self, Progress, Request, Taken};
use heaplab_capture::told;
use heaplab_capture::workers::{self, Worker};
use heaplab_capture::{CaptureError, Connection};
use heaplab_terminal as terminal;
use heaplab_terminal::progress;
use heaplab_text::lines;
use heaplab_text::lines::one_line;
use heaplab_text::words::{bytes, count};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `heaplab snapshot take`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-take.txt"))]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The file to write; it is replaced when the new one is complete. More of them: a snapshot
    /// each, when Enter is pressed
    #[arg(short, long = "output", value_name = "FILE", required = true)]
    outputs: Vec<PathBuf>,
    /// Take the next one after this time, such as 30s or 5min, instead of waiting for Enter
    #[arg(long, value_name = "TIME", value_parser = interval)]
    every: Option<Duration>,
    /// Take the heap of a worker thread: its number, a part of its title or address, or all, into
    /// files such as a.worker-2.heapsnapshot, beside the main thread's
    #[arg(long, value_name = "NUMBER|TEXT|all")]
    worker: Option<String>,
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
                told::worker_path(path, worker.as_ref())
            } else {
                path.clone()
            };
            let taken =
                with_progress(&mut connection, &path, Request { numbers: args.numbers }, quiet)?;
            if args.json {
                println!(
                    "{}",
                    serde_json::to_string(&told::with_worker(told::json(&taken), worker.as_ref()))?
                )?;
            } else {
                let title = worker
                    .as_ref()
                    .map_or_else(|| title.clone(), |worker| format!("worker {worker}"));
                print!("{}", lines::paragraph(&line(&taken, &title), "", 0, terminal::columns()))?;
            }
            std::io::stdout().flush().ok();
        }
    }
    args.target.end(connection);
    Ok(ExitCode::SUCCESS)
}

/// The heaps to take: none stands for the main thread's.
fn heaps(args: &Args, connection: &mut Connection) -> Result<Vec<Option<Worker>>> {
    let workers = match &args.worker {
        // Whether there are any is only to be mentioned.
        None => connection.workers().unwrap_or_default(),
        Some(_) => connection.workers()?,
    };
    let list = || {
        workers
            .iter()
            .take(LISTED_WORKERS)
            .map(|worker| format!("\n  {worker}"))
            .collect::<String>()
    };
    match args.worker.as_deref() {
        None => {
            if !workers.is_empty() && !args.quiet {
                let note = format!(
                    "{} with heaps of their own, which are not in this snapshot (--worker takes them):",
                    threads(workers.len())
                );
                eprint!("{}", lines::paragraph(&note, "heaplab: ", 2, terminal::columns()));
                eprintln!("{}", list().trim_start_matches('\n'));
            }
            Ok(vec![None])
        }
        Some("all") => Ok(std::iter::once(None).chain(workers.into_iter().map(Some)).collect()),
        Some(wanted) => match workers::choose(&workers, wanted) {
            Ok(worker) => Ok(vec![Some(worker.clone())]),
            Err(why) => bail!(
                "--worker {wanted}: {why}{}{}",
                if workers.is_empty() { "" } else { ":" },
                list()
            ),
        },
    }
}

/// The most workers that a message lists.
const LISTED_WORKERS: usize = 20;

fn threads(count: usize) -> String {
    if count == 1 { "1 worker".to_owned() } else { format!("{count} workers") }
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
