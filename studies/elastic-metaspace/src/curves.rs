//! Measures a design on a recording every few thousand events, and before and after every drop.

use super::workload::{Event, Workload};
use crate::design::{Design, design};
use anyhow::{Context, Result, bail};
use heaplab_metaspace::designs::Usage;
use heaplab_metaspace::spec::Spec;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::time::Duration;

/// Events between two looks.
const STEP: usize = 4_000;

/// The phase of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In between.
    Running,
    /// Before the first death of a drop.
    Loaded,
    /// After the purge that ends it.
    Dropped,
    /// After every arena died at the end of the recording.
    Empty,
}

/// One look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The program's phase.
    pub phase: Phase,
    /// The recorded JVM's time at this point, in microseconds since its start.
    pub time_us: u64,
    /// The design's own figures.
    pub moment: Usage,
    /// Anonymous resident memory of this process, beyond its memory before.
    pub resident: u64,
    /// Mappings of this process, beyond its mappings before.
    pub mappings: u64,
}

/// The kernel's figures for this process.
#[derive(Clone, Copy)]
struct Process {
    resident: u64,
    mappings: u64,
}

impl Process {
    fn now() -> Result<Process> {
        let status = std::fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .context("/proc/self/status has no RssAnon")?;
        let kilobytes: u64 = line
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .with_context(|| format!("RssAnon: {line}"))?;
        let maps = std::fs::read_to_string("/proc/self/maps").context("/proc/self/maps")?;
        Ok(Process { resident: kilobytes << 10, mappings: maps.lines().count() as u64 })
    }
}

/// Replays `workload` on the design called `name`, writes every block, and measures.
pub fn looks(workload: &Workload, name: &str) -> Result<Vec<Look>> {
    let before = Process::now()?;
    let mut replay = Replay::new(workload, name)?;
    let mut looks = Vec::new();
    let mut look = |replay: &Replay, phase: Phase, time_us: u64| -> Result<()> {
        let now = Process::now()?;
        looks.push(Look {
            phase,
            time_us,
            moment: replay.design.usage(),
            resident: now.resident.saturating_sub(before.resident),
            mappings: now.mappings.saturating_sub(before.mappings),
        });
        Ok(())
    };
    let mut dropping = false;
    let mut now_us = 0;
    for (index, (event, time_us)) in workload.events.iter().zip(&workload.times_us).enumerate() {
        // The state before this event held until now.
        now_us = *time_us;
        match event {
            Event::Death(_) if !std::mem::replace(&mut dropping, true) => {
                look(&replay, Phase::Loaded, now_us)?
            }
            _ if index.is_multiple_of(STEP) && !dropping => look(&replay, Phase::Running, now_us)?,
            _ => {}
        }
        replay.step(*event, true)?;
        if *event == Event::Purge {
            dropping = false;
            look(&replay, Phase::Dropped, now_us)?;
        }
    }
    look(&replay, Phase::Running, now_us)?;
    replay.end();
    look(&replay, Phase::Empty, now_us)?;
    Ok(looks)
}

/// Sizes in words of the rests of retired chunks that were put on free lists, in order.
///
/// Only such a rest makes an arena's used words grow by more than the request (a request served
/// from a free block does not change them). For the smallest requests both designs take more than
/// requested, but the rests that they keep are larger than that.
pub fn leftovers(workload: &Workload, name: &str) -> Result<Vec<usize>> {
    let smallest = if name.starts_with("jdk11") { 3 } else { 2 };
    let mut replay = Replay::new(workload, name)?;
    let mut sizes = Vec::new();
    for event in &workload.events {
        let used = |replay: &Replay, arena| {
            replay.arenas.get(&arena).map_or(0, |number| replay.design.used_words(*number))
        };
        let before = if let Event::Allocate(arena, _) = event { used(&replay, *arena) } else { 0 };
        replay.step(*event, false)?;
        if let Event::Allocate(arena, words) = event {
            let left = (used(&replay, *arena) - before).saturating_sub((*words).max(smallest));
            sizes.extend((left > 0).then_some(left));
        }
    }
    Ok(sizes)
}

/// A replay without measuring or writing: its CPU time, the kernel's included.
pub fn time(workload: &Workload, name: &str) -> Result<Duration> {
    let mut replay = Replay::new(workload, name)?;
    let start = processor_time();
    for event in &workload.events {
        replay.step(*event, false)?;
    }
    Ok(processor_time().saturating_sub(start))
}

/// CPU time of this thread: other processes do not lengthen it, unlike elapsed time.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

struct Replay<'a> {
    workload: &'a Workload,
    design: Box<dyn Design>,
    arenas: HashMap<usize, usize>,
    blocks: Vec<NonNull<u8>>,
}

impl<'a> Replay<'a> {
    fn new(workload: &'a Workload, name: &str) -> Result<Replay<'a>> {
        Ok(Replay {
            workload,
            design: design(Spec::parse(name)?)?,
            arenas: HashMap::new(),
            blocks: Vec::with_capacity(workload.events.len()),
        })
    }

    fn step(&mut self, event: Event, write: bool) -> Result<()> {
        let number = |arena: usize, arenas: &HashMap<usize, usize>| {
            arenas.get(&arena).copied().context("an arena that is not alive")
        };
        match event {
            Event::Birth(arena) => {
                let plan = self.workload.arenas.get(arena).copied().unwrap_or_default();
                self.arenas.insert(arena, self.design.birth(plan));
            }
            Event::Allocate(arena, words) => {
                let Some(block) = self.design.allocate(number(arena, &self.arenas)?, words) else {
                    bail!("{} was refused {words} words", self.workload.name);
                };
                if write {
                    // SAFETY: the block was just handed out with this many words.
                    unsafe { block.as_ptr().write_bytes(0x5a, words * 8) };
                }
                self.blocks.push(block);
            }
            Event::Deallocate(arena, words, Some(nth)) => {
                let block = *self.blocks.get(nth).context("a block that was never allocated")?;
                // SAFETY: recordings free what they allocated in that arena, with its size and
                // once.
                unsafe { self.design.deallocate(number(arena, &self.arenas)?, block, words) };
            }
            Event::Deallocate(_, _, None) => {}
            Event::Death(arena) => {
                let number = self.arenas.remove(&arena).context("an arena that is not alive")?;
                // SAFETY: a recording names no block of a dead arena again.
                unsafe { self.design.death(number) };
            }
            Event::Purge => self.design.purge(),
        }
        Ok(())
    }

    /// Everything dies.
    fn end(&mut self) {
        // In order of birth, so that every run is the same.
        let mut numbers: Vec<usize> = self.arenas.drain().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        for number in numbers {
            // SAFETY: the recording is over.
            unsafe { self.design.death(number) };
        }
        self.design.purge();
    }
}
