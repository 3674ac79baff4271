//! The pool in parts, one a core about, so that threads with arenas of their own do not wait for
//! each other's cache lines.
//!
//! With one pool behind one lock, two threads that each filled and dropped their own arenas had
//! 0.40 of one thread's throughput (`cargo xtask bench elastic --only threads`). Waiting was not
//! the cause: the lock, the pool's lists and the counter of arenas moved between the cores at every
//! visit. A shard has all of those for its own range of roots, on its own cache lines. A thread
//! takes from its home shard; an arena returns memory to the shard of its address. A home without
//! room, at the commit limit or at the end of its roots, asks the others, so no request is refused
//! for being in the wrong shard. Only a block of several roots must lie in one shard. The first
//! shard has at least seven eighths of all roots for that; the others are homes, and a thread that
//! needs more than its home has finds room in the first.
//!
//! Arenas by thread are an idea of ptmalloc and jemalloc. There a shard grows without bound. Here
//! it is a range of one reservation, and the reclaim policy counts the idle memory of all shards
//! together.

use super::check::Census;
use super::large::Large;
use super::places::Vacant;
use super::reclaim::{Clock, Reclaiming};
use super::shape::{GRANULE_LINES, Shape};
use super::{Counts, Lines, Memory, Pool};
use crate::error::Error;
use crate::sync::{Brief, BriefGuard};
use heaplab_buddy::marks::mark;
use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

/// More shards than this would cut the addresses up and scatter idle memory for little.
pub const SHARDS_MAX: usize = 8;
/// A space with fewer roots a shard than this gets fewer shards.
const ROOTS_MIN: usize = 8;
/// The share of all roots that shards beyond the first have together, at most.
const OTHERS_SHARE: usize = 8;
const _: () = assert!(ROOTS_MIN >= OTHERS_SHARE, "each shard has a root");

/// A part of the pool. Its own roots are numbered from 0 in its pool; outside all is counted from
/// the reservation's base.
// Two lines of 64 bytes, because they are fetched in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub struct Shard {
    pool: Brief<Pool>,
    /// The pool's last published sum, for readers without the lock.
    idle_bytes: AtomicUsize,
    base_bytes: usize,
    base_line: u32,
}

/// Memory as a shard's pool sees it.
struct Part<'a, M> {
    memory: &'a M,
    base_bytes: usize,
}

impl<M: Memory> Memory for Part<'_, M> {
    fn commit(&self, range: Range<usize>) -> Result<(), Error> {
        self.memory.commit(range.start + self.base_bytes..range.end + self.base_bytes)
    }

    unsafe fn uncommit(&self, range: Range<usize>) -> Result<(), Error> {
        // SAFETY: the caller's promise, of the same bytes.
        unsafe { self.memory.uncommit(range.start + self.base_bytes..range.end + self.base_bytes) }
    }
}

impl Shard {
    fn new(shape: Shape, first_root: usize, roots: usize) -> Shard {
        let base_bytes = first_root * shape.root_bytes();
        let pool = Brief::new(Pool::new(Shape { roots, ..shape }));
        let base_line = (base_bytes / shape.line_bytes()) as u32;
        Shard { pool, idle_bytes: AtomicUsize::new(0), base_bytes, base_line }
    }

    /// [`Brief::hold`].
    #[cfg(not(loom))]
    pub fn hold(&self) {
        self.pool.hold();
    }

    /// [`Brief::release`].
    ///
    /// # Safety
    /// As there.
    #[cfg(not(loom))]
    pub unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.pool.release() };
    }

    /// The pool for a visit that does not change the idle memory.
    #[inline]
    pub fn look(&self) -> BriefGuard<'_, Pool> {
        self.pool.lock()
    }

    /// The pool, to be visited.
    #[inline]
    pub fn lock(&self) -> Held<'_> {
        Held { pool: self.pool.lock(), shard: self }
    }

    /// Gives the ranges of a claim back; after a failure, how many went.
    ///
    /// # Safety
    /// The pool claimed the ranges: they are committed, and nobody has any part of them.
    pub unsafe fn uncommit(
        &self,
        ranges: &[Range<usize>],
        memory: &impl Memory,
    ) -> Result<(), (Error, usize)> {
        let part = Part { memory, base_bytes: self.base_bytes };
        for (nth, range) in ranges.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { part.uncommit(range.clone()) }.map_err(|error| (error, nth))?;
        }
        Ok(())
    }
}

/// A shard's pool behind its lock. Translates between the pool's lines and offsets and the
/// reservation's.
pub struct Held<'a> {
    pool: BriefGuard<'a, Pool>,
    shard: &'a Shard,
}

impl Deref for Held<'_> {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.pool
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Published under the lock, so the last published value is the last true one.
        self.shard.idle_bytes.store(self.pool.idle_bytes(), Ordering::Relaxed);
    }
}

impl Held<'_> {
    fn part<'a, M>(&self, memory: &'a M) -> Part<'a, M> {
        Part { memory, base_bytes: self.shard.base_bytes }
    }

    /// [`Pool::take_lines`].
    #[inline]
    pub fn lines(
        &mut self,
        need: u32,
        want: u32,
        hole: u32,
        memory: &impl Memory,
    ) -> Result<Lines, Error> {
        let part = self.part(memory);
        let Lines { first, count } = self.pool.take_lines(need, want, hole, &part)?;
        Ok(Lines { first: first + self.shard.base_line, count })
    }

    /// [`Pool::take_below`].
    #[inline]
    pub fn below(&mut self, first: u32, need: u32, want: u32) -> Option<u32> {
        self.pool.take_below(first - self.shard.base_line, need, want)
    }

    /// [`Pool::return_small`].
    pub fn give_small(&mut self, Lines { first, count }: Lines) {
        self.pool.return_small(Lines { first: first - self.shard.base_line, count });
    }

    /// [`Pool::take_large`].
    pub fn large(
        &mut self,
        bytes: usize,
        committed_bytes: usize,
        memory: &impl Memory,
    ) -> Result<Large, Error> {
        let (part, base) = (self.part(memory), self.shard.base_bytes);
        let large = self.pool.take_large(bytes, committed_bytes, &part)?;
        Ok(Large { range: large.range.start + base..large.range.end + base, ..large })
    }

    /// [`Pool::commit_large`].
    pub fn commit(
        &mut self,
        large: &mut Large,
        committed_bytes: usize,
        memory: &impl Memory,
    ) -> Result<(), Error> {
        let part = self.part(memory);
        let mut inside = self.inside(large);
        self.pool.commit_large(&mut inside, committed_bytes, &part)?;
        large.committed_bytes = inside.committed_bytes;
        Ok(())
    }

    /// [`Pool::return_large`].
    pub fn give_large(&mut self, large: &Large) {
        let inside = self.inside(large);
        self.pool.return_large(inside);
    }

    /// [`Alone::note`](super::large::Alone::note).
    pub fn note_alone(&mut self, first: u32, top: u32) {
        self.pool.alone.note(first - self.shard.base_line, top - self.shard.base_line);
    }

    /// [`Alone::at`](super::large::Alone::at).
    pub fn alone_at(&self, line: u32) -> Option<u32> {
        Some(self.pool.alone.at(line - self.shard.base_line)? + self.shard.base_line)
    }

    /// [`Alone::forget`](super::large::Alone::forget).
    pub fn forget_alone(&mut self, top: u32) {
        self.pool.alone.forget(top - self.shard.base_line);
    }

    fn inside(&self, large: &Large) -> Large {
        let base = self.shard.base_bytes;
        Large { range: large.range.start - base..large.range.end - base, ..large.clone() }
    }
}

/// Which shards a request may be served from.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// This one first, then all others.
    From(usize),
    /// The one that has a line.
    Of(u32),
}

/// All shards of a space.
#[derive(Debug)]
pub struct Shards {
    shards: Box<[Shard]>,
    /// Of the whole space.
    pub shape: Shape,
    /// Lines of the first shard, and of each other one.
    first_lines: u32,
    other_lines_log2: u32,
    pub reclaiming: Reclaiming,
    pub(super) clock: Clock,
}

impl Shards {
    /// The wanted number, as far as there are roots.
    pub fn new(shape: Shape, wanted: usize) -> Shards {
        let count = wanted.min(SHARDS_MAX).min(shape.roots / ROOTS_MIN).max(1);
        // A power of two each, so that a line's shard is a shift away.
        let other_roots =
            if count == 1 { 0 } else { 1 << (shape.roots / OTHERS_SHARE / (count - 1)).ilog2() };
        let first_roots = shape.roots - other_roots * (count - 1);
        let root_lines = shape.root_bytes() / shape.line_bytes();
        let mut shards = vec![Shard::new(shape, 0, first_roots)];
        shards.extend(
            (1..count)
                .map(|nth| Shard::new(shape, first_roots + (nth - 1) * other_roots, other_roots)),
        );
        Shards {
            shards: shards.into_boxed_slice(),
            shape,
            first_lines: (first_roots * root_lines) as u32,
            other_lines_log2: (other_roots * root_lines).checked_ilog2().unwrap_or(0),
            reclaiming: Reclaiming::new(),
            clock: Clock::default(),
        }
    }

    /// One for each thread that can run.
    pub fn for_this_machine(shape: Shape) -> Shards {
        Shards::new(shape, std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }

    #[inline]
    fn number_of(&self, line: u32) -> usize {
        line.checked_sub(self.first_lines)
            .map_or(0, |line| 1 + (line >> self.other_lines_log2) as usize)
    }

    /// The shard that a line lies in.
    #[inline]
    pub fn of(&self, line: u32) -> &Shard {
        &self.shards[self.number_of(line)]
    }

    /// Which shard is the home of the thread of this number.
    #[inline]
    pub fn number_of_home(&self, home: usize) -> usize {
        // Of 32 bits, because a division of 64 takes several times as long.
        let (home, count) = (home as u32, self.shards.len() as u32);
        (if home < count { home } else { home % count }) as usize
    }

    /// The one of this number.
    #[inline]
    pub fn numbered(&self, number: usize) -> &Shard {
        &self.shards[number]
    }

    /// All of them.
    pub fn all(&self) -> &[Shard] {
        &self.shards
    }

    /// All shards, in the order in which a thread with this home asks.
    pub(super) fn from(&self, home: usize) -> impl Iterator<Item = &Shard> {
        let (before, after) = self.shards.split_at(self.number_of_home(home));
        after.iter().chain(before)
    }

    /// Takes the locks of all shards for the time of a fork.
    #[cfg(not(loom))]
    pub fn hold(&self) {
        self.shards.iter().for_each(Shard::hold);
    }

    /// Lets them go.
    ///
    /// # Safety
    /// This thread, or the thread of which it is a forked copy, called [`Shards::hold`].
    #[cfg(not(loom))]
    pub unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        self.shards.iter().for_each(|shard| unsafe { shard.release() });
    }

    /// Committed bytes that nobody uses, without a lock.
    pub fn idle_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.idle_bytes.load(Ordering::Relaxed)).sum()
    }

    /// The same of all shards but one.
    pub(super) fn idle_bytes_beside(&self, shard: &Shard) -> usize {
        let others = self.shards.iter().filter(|other| !std::ptr::eq(*other, shard));
        others.map(|shard| shard.idle_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Whether more than `keep_bytes` may be idle, as far as one shard knows.
    #[inline]
    pub fn maybe_more_idle_than(&self, keep_bytes: usize, shard_idle_bytes: usize) -> bool {
        shard_idle_bytes > keep_bytes / self.shards.len()
    }

    /// Whether more than `keep_bytes` are idle. Looks at the other shards only if this one's part
    /// is exceeded.
    pub fn more_idle_than(&self, keep_bytes: usize, shard_idle_bytes: usize) -> bool {
        self.maybe_more_idle_than(keep_bytes, shard_idle_bytes) && self.idle_bytes() > keep_bytes
    }

    /// Arenas alive.
    pub fn arenas(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().anchor.arenas()).sum()
    }

    /// [`Pool::take_lines`] in any shard, after idle memory was given back where there is no room
    /// otherwise.
    #[inline]
    pub fn take_lines(
        &self,
        home: usize,
        (need, want, hole): (u32, u32, u32),
        memory: &impl Memory,
    ) -> Result<Lines, Error> {
        debug_assert!(need <= GRANULE_LINES);
        let step = |held: &mut Held<'_>| held.lines(need, want, hole, memory);
        self.with_room(Asked::From(home), step, memory)
    }

    /// [`Pool::take_large`] in any shard, likewise.
    pub fn take_large(
        &self,
        home: usize,
        bytes: usize,
        committed_bytes: usize,
        memory: &impl Memory,
    ) -> Result<Large, Error> {
        let step = |held: &mut Held<'_>| held.large(bytes, committed_bytes, memory);
        self.with_room(Asked::From(home), step, memory)
    }

    /// [`Pool::commit_large`], likewise: as far as `wanted_bytes`, or, where that is refused, as
    /// `least_bytes`.
    pub fn commit_large(
        &self,
        large: &mut Large,
        wanted_bytes: usize,
        least_bytes: usize,
        memory: &impl Memory,
    ) -> Result<(), Error> {
        let line = (large.range.start >> self.shape.line_log2()) as u32;
        let step = |held: &mut Held<'_>| match held.commit(large, wanted_bytes, memory) {
            // Near the limit the needed size may fit although the wanted one does not.
            Err(_) if least_bytes < wanted_bytes => held.commit(large, least_bytes, memory),
            outcome => outcome,
        };
        self.with_room(Asked::Of(line), step, memory)
    }

    /// The shard that a thread with this home asks first.
    #[inline]
    pub fn of_home(&self, home: usize) -> &Shard {
        &self.shards[self.number_of_home(home)]
    }

    /// The shard that is asked first.
    #[inline]
    pub(super) fn first(&self, asked: Asked) -> &Shard {
        match asked {
            Asked::From(home) => self.of_home(home),
            Asked::Of(line) => self.of(line),
        }
    }

    /// Runs `step` on the asked shards in turn until one has room. Of several refusals the limit's
    /// is returned: raising it would help.
    pub(super) fn ask<T>(
        &self,
        asked: Asked,
        step: &mut impl FnMut(&mut Held<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (first, count) = match asked {
            Asked::From(home) => (self.number_of_home(home), self.shards.len()),
            Asked::Of(line) => (self.number_of(line), 1),
        };
        let mut refused = None;
        for shard in self.from(first).take(count) {
            let outcome = step(&mut shard.lock());
            match outcome {
                Err(error @ Error::LimitReached { .. }) => refused = Some(error),
                Err(Error::AddressSpace { asked_bytes, .. }) => {
                    refused.get_or_insert(Error::AddressSpace {
                        asked_bytes,
                        reserved_bytes: self.shape.reserved_bytes(),
                    });
                }
                outcome => return outcome,
            }
            mark("a shard has no room");
        }
        Err(refused.expect("there is a shard, and it refused"))
    }

    /// Bytes that are idle, and that are on their way to the kernel, as the pools say.
    pub(super) fn idle_and_claimed_bytes(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(idle, claimed), shard| {
            let held = shard.lock();
            (idle + held.idle_bytes(), claimed + held.claimed_bytes())
        })
    }

    /// Contents, counts, and free chunks by level, of all shards.
    pub fn books(&self) -> (Census, Counts, Vec<(usize, usize, usize)>) {
        let (mut census, mut counts, mut free) = (Census::default(), Counts::default(), Vec::new());
        for shard in &self.shards {
            let held = shard.lock();
            census = census.plus(held.census());
            counts = counts.plus(held.counts());
            let levels = held.free_chunks();
            free.resize(levels.len(), (0, 0, 0));
            for (sum, (bytes, chunks, committed)) in free.iter_mut().zip(levels) {
                *sum = (bytes, sum.1 + chunks, sum.2 + committed);
            }
        }
        (census, counts, free)
    }

    /// Committed memory outside of arenas' chunks, in offsets of the reservation. Shards are
    /// visited one after the other.
    pub fn vacant(&self) -> Vec<Vacant> {
        let moved = |range: Range<usize>, by: usize| range.start + by..range.end + by;
        let of = |shard: &Shard| {
            let (vacant, by) = (shard.lock().vacant(), shard.base_bytes);
            vacant.into_iter().map(move |vacant| match vacant {
                Vacant::Region(range) => Vacant::Region(moved(range, by)),
                Vacant::Lines(range) => Vacant::Lines(moved(range, by)),
                Vacant::Granules(range) => Vacant::Granules(moved(range, by)),
                Vacant::Chunk(range) => Vacant::Chunk(moved(range, by)),
            })
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// Checks every invariant of all shards, and returns the committed bytes of their books. No
    /// claim may be under way.
    pub fn check_deep(&self) -> Result<usize, String> {
        let mut committed_bytes = 0;
        for (number, shard) in self.shards.iter().enumerate() {
            let mut held = shard.lock();
            held.check_deep().map_err(|broken| format!("shard {number}: {broken}"))?;
            committed_bytes += held.committed_bytes();
            let (idle, published) = (held.idle_bytes(), shard.idle_bytes.load(Ordering::Relaxed));
            if idle != published {
                return Err(format!(
                    "shard {number}: {idle} bytes are idle, {published} were published"
                ));
            }
        }
        Ok(committed_bytes)
    }
}

thread_local! {
    static HOME: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// This thread's number, which selects its home shard: threads are numbered in the order of their
/// first request.
#[inline]
pub fn home() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    HOME.with(|home| {
        if home.get() == usize::MAX {
            home.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        home.get()
    })
}

/// Gives this thread another home, so that one thread can use all shards.
#[cfg(any(test, feature = "fuzzing"))]
pub fn set_home(number: usize) {
    HOME.with(|home| home.set(number));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_line_lies_in_the_shard_that_has_its_root() {
        for (roots, wanted, expected) in
            [(1, 9, 1), (15, 2, 1), (16, 2, 2), (64, 3, 3), (256, 99, 8), (100, 5, 5)]
        {
            let shards = Shards::new(Shape::new(4096, 64 * 4096, roots).unwrap(), wanted);
            assert_eq!(shards.all().len(), expected, "{roots} roots");
            let mut first = 0;
            for (number, shard) in shards.all().iter().enumerate() {
                let own = shard.lock().shape.roots;
                assert!(
                    own > 0 && (number > 0 || own * 8 >= roots * 7 || wanted == 1),
                    "{own} of {roots} roots"
                );
                assert_eq!(shard.base_bytes, first * 64 * 4096);
                for line in [first * 4096, (first + own) * 4096 - 1] {
                    assert_eq!(
                        shards.number_of(line as u32),
                        number,
                        "line {line} of {roots} roots"
                    );
                }
                first += own;
            }
            assert_eq!(first, roots);
        }
    }
}
