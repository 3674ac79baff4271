//! `heaplab snapshot watch`: a snapshot each time the heap nears its limit.

use super::file;
use super::take::with_progress;
use super::target::Target;
use crate::answer;
use anyhow::{Context, Result, bail};
use heaplab_capture::outcome;
use heaplab_capture::own_files::OwnFiles;
use heaplab_capture::take::Request;
use heaplab_capture::watch::{Trigger, Usage, limit_bytes, used_bytes};
use heaplab_capture::{CaptureError, Connection};
use heaplab_profile::choose::nanoseconds;
use heaplab_terminal as terminal;
use heaplab_text::lines;
use heaplab_text::words::bytes;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Arguments of `heaplab snapshot watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-watch.txt"))]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Take at most this many snapshots, one each time the heap nears its limit
    #[arg(long, value_name = "N", required_unless_present = "every", value_parser = clap::value_parser!(u32).range(1..))]
    near_heap_limit: Option<u32>,
    /// Percentage of the limit that counts as near
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=99))]
    near: u8,
    /// Take a snapshot at this interval instead, such as 30s or 5min
    #[arg(long, value_name = "TIME", conflicts_with = "near_heap_limit", value_parser = interval)]
    every: Option<Duration>,
    /// With --every: take at most this many
    #[arg(long, value_name = "N", default_value_t = 3, requires = "every", value_parser = clap::value_parser!(u32).range(1..))]
    at_most: u32,
    /// Time between two checks of the heap
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = interval)]
    poll: Duration,
    /// The name of the files, without their number
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
    let most = args.near_heap_limit.unwrap_or(args.at_most);
    let own = match args.near_heap_limit {
        Some(count) => OwnFiles::arrange(&mut connection, count)?,
        None => None,
    };
    let mut watch = Watch {
        args: &args,
        trigger: Trigger::new(f64::from(args.near) / 100.0),
        began: Instant::now(),
        taken: 0,
    };
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
    let Some(error) = ended else {
        args.target.end(connection);
        return Ok(ExitCode::SUCCESS);
    };
    drop(connection);
    if let Some(own) = &own {
        watch.take_over(own, most)?;
    }
    if watch.taken == most {
        return Ok(ExitCode::SUCCESS);
    }
    let advice = match (&own, args.near_heap_limit) {
        (None, Some(_)) => {
            "; a Node that is started with --heapsnapshot-near-heap-limit takes them itself, however fast the heap grows"
        }
        _ => "",
    };
    match watch.taken {
        0 => bail!("no snapshot was taken: {error}{advice}"),
        taken => bail!("{taken} of {most} snapshots were taken: {error}{advice}"),
    }
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
        let path = outcome::numbered(&self.args.output, self.taken + 1);
        let taken = with_progress(
            connection,
            &path,
            Request::default(),
            self.args.quiet || self.args.json,
        )?;
        self.taken += 1;
        answer::print(
            self.args.json,
            || outcome::json(&taken),
            || lines::paragraph(&outcome::line(&taken, title), "", 0, terminal::columns()),
        )?;
        self.trigger.taken(used_bytes(connection).unwrap_or(0));
        Ok(())
    }

    /// Gives the files that Node has written by itself the names that were asked for.
    fn take_over(&mut self, own: &OwnFiles, most: u32) -> Result<()> {
        let found =
            own.found().with_context(|| format!("cannot look into {}", own.folder().display()))?;
        for (from, is_whole) in found {
            if !is_whole {
                eprintln!(
                    "heaplab: {}: Node ended before this snapshot was whole; `heaplab snapshot repair` makes a file of what there is",
                    from.display()
                );
                continue;
            }
            if self.taken == most {
                break;
            }
            let path = outcome::numbered(&self.args.output, self.taken + 1);
            outcome::renamed(&from, &path)
                .with_context(|| format!("cannot move {} to {}", from.display(), path.display()))?;
            self.taken += 1;
            let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            if self.args.json {
                println!("{}", outcome::own_json(&path, size))?;
            } else {
                println!("{}: {}, taken by Node itself", path.display(), bytes(size))?;
            }
        }
        Ok(())
    }

    fn wait(&self, connection: &mut Connection) -> Result<()> {
        let bar = file::bar(self.args.quiet || self.args.json, "watching");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_times_of_ten_milliseconds_and_more() {
        assert!(interval("30s").is_ok() && interval("0s").is_err() && interval("soon").is_err());
    }
}
