//! `heaplab snapshot watch`: a snapshot each time the heap nears its limit.

use super::take::{line, taken_json, with_progress};
use super::target::Target;
use crate::terminal;
use anyhow::{Result, bail};
use heaplab_capture::take::Request;
use heaplab_capture::watch::{Trigger, Usage, limit_bytes, used_bytes};
use heaplab_capture::{CaptureError, Connection};
use heaplab_profile::choose::nanoseconds;
use heaplab_text::lines;
use heaplab_text::words::bytes;
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Arguments of `heaplab snapshot watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab snapshot watch --node 4711 --near-heap-limit 3 -o leak.heapsnapshot
  heaplab snapshot watch --node 4711 --near-heap-limit 5 --near 60 \\
      -o leak.heapsnapshot
  heaplab snapshot watch --node 4711 --every 30s --at-most 3 \\
      -o leak.heapsnapshot
  heaplab snapshot diff leak.1.heapsnapshot leak.2.heapsnapshot \\
      leak.3.heapsnapshot

Writes leak.1.heapsnapshot, leak.2.heapsnapshot, ... The next one is due when
the heap is near its limit again and has grown. Ends after the last one, or
with the target (exit code 1 where it left no snapshot). An inspector that had
to be opened is closed in the end. V8 needs memory of its
own beside the heap to make a snapshot.")]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// At most so many snapshots, one each time the heap nears its limit
    #[arg(long, value_name = "N", required_unless_present = "every", value_parser = clap::value_parser!(u32).range(1..))]
    near_heap_limit: Option<u32>,
    /// Per cent of the limit that is near it
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=99))]
    near: u8,
    /// One snapshot every so often instead, such as 30s or 5min
    #[arg(long, value_name = "TIME", conflicts_with = "near_heap_limit", value_parser = interval)]
    every: Option<Duration>,
    /// With --every: at most so many
    #[arg(long, value_name = "N", default_value_t = 3, requires = "every", value_parser = clap::value_parser!(u32).range(1..))]
    at_most: u32,
    /// Time between two looks at the heap
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = interval)]
    poll: Duration,
    /// The files' name, to which the number is added
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Write a line of JSON for each snapshot
    #[arg(long)]
    json: bool,
}

/// A time to wait.
pub fn interval(text: &str) -> Result<Duration, String> {
    let time = nanoseconds(text)
        .map(Duration::from_nanos)
        .filter(|time| *time >= Duration::from_millis(10));
    time.ok_or_else(|| "expected a time of 10ms or more, such as 250ms, 30s or 5min".into())
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let (mut connection, title) = args.target.connect()?;
    let mut watch = Watch {
        args: &args,
        trigger: Trigger::new(f64::from(args.near) / 100.0),
        began: Instant::now(),
        taken: 0,
    };
    let most = args.near_heap_limit.unwrap_or(args.at_most);
    let ended = loop {
        match watch.next(&mut connection, &title) {
            Ok(()) if watch.taken == most => break None,
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.downcast_ref(),
                    Some(CaptureError::Gone { .. } | CaptureError::Cut { .. })
                ) =>
            {
                break Some(error);
            }
            Err(error) => return Err(error),
        }
    };
    match ended {
        Some(error) if watch.taken == 0 => bail!("no snapshot was taken: {error}"),
        Some(error) => {
            eprintln!("heaplab: {} of {most} snapshots were taken: {error}", watch.taken)
        }
        None => {}
    }
    args.target.end(connection);
    Ok(ExitCode::SUCCESS)
}

struct Watch<'a> {
    args: &'a Args,
    trigger: Trigger,
    began: Instant,
    taken: u32,
}

impl Watch<'_> {
    /// Waits until a snapshot is due and takes it.
    fn next(&mut self, connection: &mut Connection, title: &str) -> Result<()> {
        self.wait(connection)?;
        let path = numbered(&self.args.output, self.taken + 1);
        let taken = with_progress(
            connection,
            &path,
            Request::default(),
            self.args.quiet || self.args.json,
        )?;
        self.taken += 1;
        if self.args.json {
            println!("{}", serde_json::to_string(&taken_json(&taken))?)?;
        } else {
            print!("{}", lines::paragraph(&line(&taken, title), "", 0, terminal::columns()))?;
        }
        self.trigger.taken(used_bytes(connection).unwrap_or(0));
        Ok(())
    }

    fn wait(&self, connection: &mut Connection) -> Result<()> {
        let hidden = self.args.quiet || self.args.json || !std::io::stderr().is_terminal();
        let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new(1) };
        bar.set_style(ProgressStyle::with_template("{msg} {wide_bar} {percent} %")?);
        loop {
            let usage = Usage {
                used_bytes: used_bytes(connection)?,
                limit_bytes: limit_bytes(connection)?,
            };
            bar.set_length(usage.limit_bytes);
            bar.set_position(usage.used_bytes);
            bar.set_message(format!(
                "watching: {} of {}",
                bytes(usage.used_bytes),
                bytes(usage.limit_bytes)
            ));
            let due = match self.args.every {
                Some(every) => self.began.elapsed() >= every * self.taken,
                None => self.trigger.is_due(usage),
            };
            if due {
                bar.finish_and_clear();
                return Ok(());
            }
            std::thread::sleep(self.args.poll);
        }
    }
}

/// `leak.heapsnapshot` with a number: `leak.1.heapsnapshot`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().map_or_else(OsString::new, OsString::from);
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_before_their_extension() {
        assert_eq!(
            numbered(Path::new("a/leak.heapsnapshot"), 2),
            Path::new("a/leak.2.heapsnapshot")
        );
        assert_eq!(numbered(Path::new("leak"), 1), Path::new("leak.1"));
        assert!(interval("30s").is_ok() && interval("0s").is_err() && interval("soon").is_err());
    }
}
