//! A program split up: instructions and edges for each thread, stretches for each segment.
//!
//! The program is walked twice: first to count each thread's share, then to store it. All threads
//! share two arrays, and a thread of a few instructions costs a few words: recordings have hundreds
//! of thousands of threads.

use crate::driver::ReplayError;
use crate::pages::{Pages, Zeroable};
use heaplab_trace::program::{Managed, Program, Step, decode};

/// A place in a thread's instructions with an action for the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    /// Before the instruction at this word of the thread's.
    pub(super) at: u64,
    /// 0: publish, 1: wait. A publication belongs to the instruction before, so it comes first.
    pub(super) waits: u32,
    pub(super) slot: u32,
    pub(super) number: u64,
}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for Edge {}

/// A thread's end in a segment.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    pub(super) thread: u32,
    /// Word of the thread's instructions at which the segment ends.
    pub(super) end: u64,
}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for Stretch {}

/// The last instruction on a slot.
#[derive(Clone, Copy)]
struct Last {
    /// Its number on the slot; 0: there was none.
    number: u64,
    /// Word behind it in its thread's instructions.
    behind: u64,
    thread: u32,
}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for Last {}

/// Start of a thread's part of the arrays, and how much of it is stored.
#[derive(Clone, Copy, Default)]
struct Part {
    first_word: u64,
    words: u64,
    first_edge: u64,
    edges: u64,
    /// Words of the thread in all.
    words_total: u64,
    /// Words at the last barrier.
    cut: u64,
}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for Part {}

/// One thread's instructions.
#[derive(Clone, Copy)]
pub(super) struct Lane<'a> {
    pub(super) words: &'a [u32],
    pub(super) edges: &'a [Edge],
}

/// The split program.
pub(super) struct Plan {
    words: Pages<u32>,
    edges: Pages<Edge>,
    parts: Pages<Part>,
    stretches: Pages<Stretch>,
    /// For each segment, the end of its stretches.
    segments: Pages<u64>,
    alive_max: usize,
}

impl Plan {
    /// `every_checkpoint`: all checkpoints are barriers, not only marks.
    pub(super) fn new(program: &Program, every_checkpoint: bool) -> Result<Plan, ReplayError> {
        let facts = program.facts();
        if facts.regions > 0 {
            return Err(ReplayError::Threads(
                "a program with arenas is replayed in recorded order (without --threads)".into(),
            ));
        }
        // Every thread has at least one instruction of one word.
        let threads = (facts.threads.max(1) as usize).min(program.words().len().max(1));
        let mut walk =
            Walk { program, every_checkpoint, last: Pages::zeroed(facts.slots as usize)?, threads };
        let mut parts: Pages<Part> = Pages::zeroed(threads)?;
        walk.run(&mut Count(parts.as_mut_slice()))?;
        let (mut words, mut edges) = (0, 0);
        for part in parts.as_mut_slice() {
            *part = Part { first_word: words, first_edge: edges, words_total: part.words, ..*part };
            (words, edges) = (words + part.words, edges + part.edges);
            (part.words, part.edges) = (0, 0);
        }
        let mut plan = Plan {
            words: Pages::zeroed(words as usize)?,
            edges: Pages::zeroed(edges as usize)?,
            parts,
            stretches: Pages::new(),
            segments: Pages::new(),
            alive_max: 0,
        };
        walk.run(&mut Fill { plan: &mut plan, touched: Vec::new(), alive: 0 })?;
        let Plan { parts, edges, .. } = &mut plan;
        for part in parts.iter() {
            edges.as_mut_slice()[part.first_edge as usize..][..part.edges as usize].sort_unstable();
        }
        Ok(plan)
    }

    /// Number of threads.
    pub(super) fn threads(&self) -> usize {
        self.parts.len()
    }

    /// Most threads that exist at once in the recording, from first to last instruction.
    pub(super) fn alive_max(&self) -> usize {
        self.alive_max
    }

    pub(super) fn lane(&self, thread: usize) -> Lane<'_> {
        let part = self.parts[thread];
        Lane {
            words: &self.words[part.first_word as usize..][..part.words as usize],
            edges: &self.edges[part.first_edge as usize..][..part.edges as usize],
        }
    }

    /// The stretches between successive barriers, in the order in which their threads began.
    pub(super) fn segments(&self) -> impl Iterator<Item = &[Stretch]> {
        let mut first = 0;
        self.segments.iter().map(move |end| {
            let stretches = &self.stretches[first..*end as usize];
            first = *end as usize;
            stretches
        })
    }
}

/// Receives a program's walk.
trait Visit {
    /// `thread` executes `words`. `waits`: `thread` first waits for instruction `number` of `slot`,
    /// which ends at the word `behind` of another thread.
    fn instruction(
        &mut self,
        thread: usize,
        words: &[u32],
        waits: Option<(Last, u32)>,
    ) -> Result<u64, ReplayError>;
    /// A barrier: every thread with instructions since the last one has a stretch up to here.
    fn barrier(&mut self) -> Result<(), ReplayError>;
}

struct Walk<'a> {
    program: &'a Program,
    every_checkpoint: bool,
    last: Pages<Last>,
    threads: usize,
}

impl Walk<'_> {
    fn run(&mut self, visit: &mut impl Visit) -> Result<(), ReplayError> {
        let Walk { program, every_checkpoint, last, threads } = self;
        last.as_mut_slice().fill(Last { number: 0, behind: 0, thread: 0 });
        let words = program.words();
        let end = words.len() as u64;
        let barriers = program.checkpoints().iter();
        let mut barriers = barriers
            .filter(|checkpoint| {
                *every_checkpoint || checkpoint.mark.is_some() || checkpoint.word == end
            })
            .peekable();
        let (mut thread, mut at) = (0, 0);
        loop {
            while barriers.next_if(|barrier| barrier.word <= at as u64).is_some() {
                visit.barrier()?;
            }
            let word = at;
            let Some(step) = decode(words, &mut at)? else { return Ok(()) };
            match step {
                Step::Thread { thread: next } => {
                    let outside = || {
                        ReplayError::Threads(format!(
                            "word {word} of the replay program: thread {next} of {threads}"
                        ))
                    };
                    thread =
                        Some(next as usize).filter(|next| *next < *threads).ok_or_else(outside)?;
                }
                Step::Free { slot }
                | Step::Allocate { slot, .. }
                | Step::Reallocate { slot, .. }
                | Step::UsableSize { slot }
                | Step::Managed(Managed::Release { slot }) => {
                    let outside = ReplayError::Slot { word, slot, found: "outside of the table" };
                    let last = last.as_mut_slice().get_mut(slot as usize).ok_or(outside)?;
                    let waits = (last.number != 0 && last.thread as usize != thread)
                        .then_some((*last, slot));
                    let behind = visit.instruction(thread, &words[word..at], waits)?;
                    *last = Last { number: last.number + 1, behind, thread: thread as u32 };
                }
                // Requests to the heap as a whole belong to no thread: threads replay only blocks.
                Step::Managed(_) => {}
                Step::RegionBirth { .. } | Step::RegionDeath { .. } => {
                    return Err(ReplayError::Threads(format!(
                        "word {word} of the replay program: an arena in a program without arenas"
                    )));
                }
            }
        }
    }
}

/// The first walk.
struct Count<'a>(&'a mut [Part]);

impl Visit for Count<'_> {
    fn instruction(
        &mut self,
        thread: usize,
        words: &[u32],
        waits: Option<(Last, u32)>,
    ) -> Result<u64, ReplayError> {
        if let Some((earlier, _)) = waits {
            self.0[earlier.thread as usize].edges += 1;
            self.0[thread].edges += 1;
        }
        self.0[thread].words += words.len() as u64;
        Ok(self.0[thread].words)
    }

    fn barrier(&mut self) -> Result<(), ReplayError> {
        Ok(())
    }
}

/// The second walk.
struct Fill<'a> {
    plan: &'a mut Plan,
    /// Threads with instructions since the last barrier.
    touched: Vec<u32>,
    alive: usize,
}

impl Fill<'_> {
    fn edge(&mut self, thread: usize, edge: Edge) {
        let part = &mut self.plan.parts.as_mut_slice()[thread];
        self.plan.edges.as_mut_slice()[(part.first_edge + part.edges) as usize] = edge;
        part.edges += 1;
    }
}

impl Visit for Fill<'_> {
    fn instruction(
        &mut self,
        thread: usize,
        words: &[u32],
        waits: Option<(Last, u32)>,
    ) -> Result<u64, ReplayError> {
        let part = self.plan.parts[thread];
        if part.words == 0 {
            self.alive += 1;
            self.plan.alive_max = self.plan.alive_max.max(self.alive);
        }
        if part.words == part.cut {
            self.touched.push(thread as u32);
        }
        if let Some((earlier, slot)) = waits {
            self.edge(
                earlier.thread as usize,
                Edge { at: earlier.behind, waits: 0, slot, number: earlier.number },
            );
            self.edge(thread, Edge { at: part.words, waits: 1, slot, number: earlier.number });
        }
        self.plan.words.as_mut_slice()[(part.first_word + part.words) as usize..][..words.len()]
            .copy_from_slice(words);
        let part = &mut self.plan.parts.as_mut_slice()[thread];
        part.words += words.len() as u64;
        self.alive -= usize::from(part.words == part.words_total);
        Ok(part.words)
    }

    fn barrier(&mut self) -> Result<(), ReplayError> {
        for thread in self.touched.drain(..) {
            let part = &mut self.plan.parts.as_mut_slice()[thread as usize];
            part.cut = part.words;
            self.plan.stretches.push(Stretch { thread, end: part.words })?;
        }
        self.plan.segments.push(self.plan.stretches.len() as u64)?;
        Ok(())
    }
}
