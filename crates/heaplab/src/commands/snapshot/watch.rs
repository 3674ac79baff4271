//! `heaplab snapshot watch`: a snapshot each time the heap nears its limit.

use super::file;
use super::take::with_progress;
use super::target::Target;
use crate::answer;
use anyhow::{Result, bail};
use heaplab_capture::outcome;
use heaplab_capture::own_files::OwnFiles;
use heaplab_capture::take::Request;
use heaplab_capture::watch::{Due, OwnSnapshot, Trigger, Watch};
use heaplab_capture::{CaptureError, Connection};
use heaplab_profile::choose::nanoseconds;
use heaplab_terminal as terminal;
use heaplab_text::lines;
use heaplab_text::words::{bytes, plural};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

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

pub fn run(args: Args) -> Result<ExitCode> {
    let (mut connection, title) = args.target.connect()?;
    let most = args.near_heap_limit.unwrap_or(args.at_most);
    let own = match args.near_heap_limit {
        Some(count) => OwnFiles::arrange(&mut connection, count)?,
        None => None,
    };
    let near = Trigger::new(f64::from(args.near) / 100.0);
    let due = args.every.map_or(Due::NearLimit(near), Due::Every);
    let mut watch = Watch::new(due, args.poll, args.output.clone(), most);
    let mut ended = None;
    while ended.is_none() && !watch.is_over() {
        if let Err(error) = next(&args, &mut watch, &mut connection, &title) {
            if !error.downcast_ref().is_some_and(CaptureError::is_end) {
                return Err(error);
            }
            ended = Some(error);
        }
    }
    let Some(error) = ended else {
        args.target.end(connection);
        if let Some(own) = &own {
            tell_left(own);
        }
        return Ok(ExitCode::SUCCESS);
    };
    drop(connection);
    if let Some(own) = &own {
        for snapshot in watch.take_over(own)? {
            tell(&snapshot?, args.json)?;
        }
    }
    if watch.is_over() {
        return Ok(ExitCode::SUCCESS);
    }
    let advice = match (&own, args.near_heap_limit) {
        (None, Some(_)) => {
            "; a Node that is started with --heapsnapshot-near-heap-limit takes them itself, however fast the heap grows"
        }
        _ => "",
    };
    match watch.taken() {
        0 => bail!("no snapshot was taken: {error}{advice}"),
        taken => bail!("{taken} of {most} snapshots were taken: {error}{advice}"),
    }
}

/// Waits until a snapshot is due and takes it.
fn next(args: &Args, watch: &mut Watch, connection: &mut Connection, title: &str) -> Result<()> {
    let is_quiet = args.quiet || args.json;
    let bar = file::bar(is_quiet, "watching");
    let path = watch.wait(connection, &mut |usage| {
        bar.set_length(usage.limit_bytes);
        bar.set_position(usage.used_bytes);
        let [used, limit] = [usage.used_bytes, usage.limit_bytes].map(bytes);
        bar.set_message(format!("watching: {used} of {limit}"));
    })?;
    bar.finish_and_clear();
    let taken = with_progress(connection, &path, Request::default(), is_quiet)?;
    watch.took(connection);
    answer::print(
        args.json,
        || outcome::json(&taken),
        || lines::paragraph(&outcome::line(&taken, title), "", 0, terminal::columns()),
    )
}

/// Names the snapshots that Node wrote beside those of heaplab: its heap was full before the last
/// one was taken.
fn tell_left(own: &OwnFiles) {
    // A hint; a folder that cannot be read has none.
    let found = own.found().unwrap_or_default();
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let sum: u64 = found.iter().map(|(path, _)| size(path)).sum();
    if let Some((first, _)) = found.first() {
        eprintln!(
            "heaplab: Node also wrote {} by itself ({}), the first is {}: they may be deleted",
            plural(found.len() as u64, "snapshot"),
            bytes(sum),
            first.display()
        );
    }
}

/// Prints the fate of a file that Node wrote by itself.
fn tell(snapshot: &OwnSnapshot, is_json: bool) -> Result<()> {
    match snapshot {
        OwnSnapshot::Cut(path) => eprintln!(
            "heaplab: {}: Node ended before this snapshot was whole; `heaplab snapshot repair` makes a file of what there is",
            path.display()
        ),
        OwnSnapshot::Moved(path, size) => answer::print(
            is_json,
            || outcome::own_json(path, *size),
            || format!("{}: {}, taken by Node itself\n", path.display(), bytes(*size)),
        )?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_times_of_ten_milliseconds_and_more() {
        assert!(interval("30s").is_ok() && interval("0s").is_err() && interval("soon").is_err());
    }
}
