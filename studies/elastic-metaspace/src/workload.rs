//! The recordings of `traces/metaspace`, embedded in the binary.

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use heaplab_metaspace::plan::ArenaPlan;
use std::io::Read;

/// Largest text of an unpacked recording.
const TEXT_BYTES_MAX: u64 = 256 << 20;

/// A JVM's requests to its metaspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An arena is born.
    Birth(usize),
    /// Words, of an arena.
    Allocate(usize, usize),
    /// The block of the n-th allocation, of this many words, goes back to its arena.
    Deallocate(usize, usize, Option<usize>),
    /// An arena dies.
    Death(usize),
    /// The end of a collection that unloaded classes.
    Purge,
}

/// One recording.
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// By number.
    pub arenas: Vec<ArenaPlan>,
    /// In order.
    pub events: Vec<Event>,
    /// Times of the events, in microseconds since the JVM's start.
    pub times_us: Vec<u64>,
    /// Allocations that the recorded JVM served from free blocks.
    pub from_free_blocks: u64,
}

fn unpack(name: &str, bytes: &[u8]) -> Result<String> {
    let mut text = String::new();
    GzDecoder::new(bytes)
        .take(TEXT_BYTES_MAX)
        .read_to_string(&mut text)
        .with_context(|| format!("unpacking {name}"))?;
    Ok(text)
}

/// Class-loader churn: loaders of some 60 classes and of one, 90 % dropped, five cycles.
pub fn churn() -> Result<Workload> {
    read(
        "churn",
        include_bytes!("../../../traces/metaspace/churn.trace.gz"),
        include_bytes!("../../../traces/metaspace/churn.arenas.csv.gz"),
    )
}

/// JRuby's hello world, every method compiled: mostly loaders of one class.
pub fn jruby() -> Result<Workload> {
    read(
        "jruby",
        include_bytes!("../../../traces/metaspace/jruby.trace.gz"),
        include_bytes!("../../../traces/metaspace/jruby.arenas.csv.gz"),
    )
}

/// The decisions of JDK 11 on the study's own churn.
pub fn jdk11() -> Result<Vec<heaplab_metaspace::old::recording::Event>> {
    let text = unpack(
        "jdk11-churn.txt.gz",
        include_bytes!("../../../traces/metaspace/jdk11-churn.txt.gz"),
    )?;
    heaplab_metaspace::old::recording::parse(&text).context("jdk11-churn.txt.gz")
}

fn read(name: &'static str, trace: &[u8], arenas: &[u8]) -> Result<Workload> {
    let kinds = unpack(name, arenas)?;
    // Columns: arena, loader, space, kind, and more; arenas in order of their numbers.
    let plan = |line: &str| {
        let mut columns = line.split(',').skip(2);
        let space = if columns.next() == Some("c") { "class" } else { "non-class" };
        ArenaPlan::parse(space, columns.next().unwrap_or("standard"))
    };
    let arenas: Vec<ArenaPlan> = kinds.lines().skip(1).map(plan).collect();
    let text = unpack(name, trace)?;
    let mut workload =
        Workload { name, arenas, events: Vec::new(), times_us: Vec::new(), from_free_blocks: 0 };
    // Threads write their lines a little late; the recording's time never goes back.
    let (mut line_us, mut now_us) = (0i64, 0u64);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let event = event(line).with_context(|| {
            format!("{name}.trace.gz, line {}: expected an event, found {line:?}", index + 1)
        })?;
        workload.from_free_blocks += u64::from(line.split(' ').nth(1) == Some("f"));
        let step = line.split(' ').next().and_then(|text| text.parse::<i64>().ok());
        line_us += step.with_context(|| {
            format!("{name}.trace.gz, line {}: expected microseconds, found {line:?}", index + 1)
        })?;
        now_us = now_us.max(line_us.max(0) as u64);
        workload.times_us.push(now_us);
        workload.events.push(event);
    }
    Ok(workload)
}

/// Parses `dt op args`, as described in traces/metaspace/README.md.
fn event(line: &str) -> Option<Event> {
    let mut words = line.split(' ').skip(1);
    let op = words.next()?;
    let rest: Vec<&str> = words.collect();
    let number = |at: usize| rest.get(at)?.parse::<usize>().ok();
    Some(match op {
        "b" => Event::Birth(number(0)?),
        "a" | "f" => Event::Allocate(number(0)?, number(1)?),
        "d" => Event::Deallocate(number(0)?, number(1)?, number(2)),
        "k" => Event::Death(number(0)?),
        "p" => Event::Purge,
        _ => return None,
    })
}

impl Workload {
    /// Words of every allocation, and whether it belongs to class space.
    pub fn requests(&self) -> impl Iterator<Item = (usize, bool)> {
        self.events.iter().filter_map(|event| match event {
            Event::Allocate(arena, words) => {
                Some((*words, self.arenas.get(*arena).is_some_and(|plan| plan.class)))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_recordings_are_whole() {
        let churn = churn().unwrap();
        assert_eq!((churn.events.len(), churn.arenas.len()), (433_287, 2_606));
        assert_eq!(churn.events.iter().filter(|event| **event == Event::Purge).count(), 5);
        assert_eq!(churn.times_us.len(), churn.events.len());
        assert!(churn.times_us.is_sorted() && churn.times_us[0] == 47_168);
        assert_eq!(jruby().unwrap().arenas.len(), 1_482);
    }
}
