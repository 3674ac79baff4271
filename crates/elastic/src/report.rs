//! The contents of a space, printed like HotSpot's `jcmd VM.metaspace`: usage, waste, free chunks
//! by size.
//!
//! HotSpot takes each loader's lock to count the used part of its chunks. An arena here has no
//! lock, because allocations take none: its cursor and free blocks belong to its owner alone. So
//! the pool reports what arenas have, at any time and from any thread. The use of chunks is counted
//! for the arenas that the caller holds ([`Space::report_with`]); other threads add theirs with
//! [`Report::include`]. Allocating counts nothing.

use crate::pool::Counts;
use crate::pool::reclaim::UncommitTimes;
use crate::{Arena, ArenaStatistics, Error, Space, SystemCalls};
use std::fmt;

/// Free chunks of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
pub struct Level {
    /// The size of each.
    pub chunk_bytes: usize,
    /// How many.
    pub chunks: usize,
    /// Committed bytes of all these chunks.
    pub committed_bytes: usize,
}

/// The contents of a space. `committed = in shared granules + in large chunks + idle`, while no
/// arena begins, grows or ends and nothing is given back. Shards are visited one after the other,
/// so changes by other threads meanwhile make the sums inexact.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
pub struct Report {
    /// Addresses reserved.
    pub reserved_bytes: usize,
    /// Addresses that were asked for, in whole roots: more than were reserved where the system
    /// refused that many ([`Options::RESERVE_BYTES`](crate::Options::RESERVE_BYTES)).
    pub wanted_bytes: usize,
    /// Committed bytes.
    pub committed_bytes: usize,
    /// Limit of committed bytes; the largest number if there is no limit.
    pub limit_bytes: usize,
    /// Resident bytes, from the kernel.
    pub resident_bytes: usize,
    /// Mappings (VMAs), from the kernel, with the guard pages at both ends of the space.
    pub mappings: usize,
    /// Arenas alive.
    pub arenas: usize,
    /// Arenas whose use of their chunks was counted.
    pub asked_arenas: usize,
    /// The sum over those arenas.
    pub asked: ArenaStatistics,
    /// The unit of committing and giving back.
    pub granule_bytes: usize,
    /// The unit of small chunks.
    pub line_bytes: usize,
    /// Granules that small chunks share, in bytes.
    pub shared_bytes: usize,
    /// Lines in those that no chunk has: the next small chunks go there.
    pub shared_free_bytes: usize,
    /// Committed bytes of large chunks in use.
    pub large_bytes: usize,
    /// Committed bytes that nobody uses; a trim gives them back.
    pub idle_bytes: usize,
    /// Free large chunks, the largest first.
    pub free_chunks: Vec<Level>,
    /// The pool's own books, about.
    pub table_bytes: usize,
    /// Ranges that were committed. Most take no system call: [`Report::system_calls`] has those.
    pub commits: u64,
    /// Ranges that were given back.
    pub uncommits: u64,
    /// Bytes given back since the beginning.
    pub uncommitted_bytes: u64,
    /// System calls since the beginning.
    pub system_calls: SystemCalls,
    /// The time that giving back took.
    pub uncommit_times: UncommitTimes,
    /// Counts of the pool's operations.
    pub counts: Counts,
}

impl Report {
    /// Committed bytes of arenas' chunks, from the pool.
    pub fn in_arenas_bytes(&self) -> usize {
        self.shared_bytes - self.shared_free_bytes + self.large_bytes
    }

    /// Of those, the bytes of arenas that were not asked. If arenas grow while they are asked, this
    /// may be off by as much.
    pub fn not_asked_bytes(&self) -> usize {
        self.in_arenas_bytes().saturating_sub(self.asked.committed_bytes)
    }

    /// Committed bytes that are in no block of an arena that was asked, and in no chunk of one that
    /// was not: free and left over in chunks, what arenas keep of themselves, free lines, idle
    /// memory.
    pub fn waste_bytes(&self) -> usize {
        let ArenaStatistics { free_bytes, deallocated_bytes, overhead_bytes, .. } = self.asked;
        free_bytes + deallocated_bytes + overhead_bytes + self.shared_free_bytes + self.idle_bytes
    }

    /// Adds what other arenas of the space said: those of another thread, for instance, which asked
    /// them itself.
    ///
    /// ```
    /// use heaplab_elastic::{Arena, ArenaStatistics, Growth, Space};
    /// let space = Space::default();
    /// let theirs = std::thread::scope(|scope| {
    ///     let thread = scope.spawn(|| {
    ///         let arenas: Vec<Arena> = (0..3).map(|_| space.arena(Growth::SMALL)).collect::<Result<_, _>>()?;
    ///         arenas[0].alloc_str("a block of theirs")?;
    ///         let sum: ArenaStatistics = arenas.iter().map(Arena::statistics).sum();
    ///         Ok::<_, heaplab_elastic::Error>((arenas, sum))
    ///     });
    ///     thread.join().expect("no panic")
    /// })?;
    /// let mut report = space.report()?;
    /// assert_eq!((report.asked_arenas, report.not_asked_bytes()), (0, report.in_arenas_bytes()));
    /// report.include(theirs.0.len(), theirs.1);
    /// assert_eq!((report.asked_arenas, report.asked.used_bytes, report.not_asked_bytes()), (3, 24, 0));
    /// # Ok::<(), heaplab_elastic::Error>(())
    /// ```
    pub fn include(&mut self, arenas: usize, sum: ArenaStatistics) {
        self.asked_arenas += arenas;
        self.asked += sum;
    }
}

impl Space {
    /// As [`Space::report`], with what these arenas do with their chunks: used, free, left over,
    /// spent on themselves. Takes time in proportion to their chunks and free blocks. Arenas of
    /// other spaces are passed over.
    pub fn report_with<'a>(
        &self,
        arenas: impl IntoIterator<Item = &'a Arena>,
    ) -> Result<Report, Error> {
        let mut report = self.report()?;
        for arena in arenas.into_iter().filter(|arena| std::ptr::eq(arena.shared(), &*self.0)) {
            report.include(1, arena.statistics());
        }
        Ok(report)
    }

    /// Reports where everything is. Asks the kernel and counts the books under the pool's locks:
    /// for people, not for a hot path. The use of chunks by arenas needs [`Space::report_with`].
    pub fn report(&self) -> Result<Report, Error> {
        let shared = &self.0;
        let usage = shared.reservation.usage()?;
        let shape = shared.shape;
        let (census, counts, free) = shared.shards.books();
        let kernel = shared.reservation.counts();
        Ok(Report {
            reserved_bytes: shape.reserved_bytes(),
            wanted_bytes: shared.options.reserve_bytes.next_multiple_of(shape.root_bytes()),
            committed_bytes: self.committed_bytes(),
            limit_bytes: shared
                .options
                .limit
                .as_ref()
                .map_or(usize::MAX, |limit| limit.limit_bytes()),
            resident_bytes: usage.resident_bytes,
            mappings: usage.mappings,
            arenas: self.arenas(),
            asked_arenas: 0,
            asked: ArenaStatistics::default(),
            granule_bytes: shape.granule_bytes(),
            line_bytes: shape.line_bytes(),
            shared_bytes: census.shared_granules * shape.granule_bytes(),
            shared_free_bytes: census.free_lines * shape.line_bytes(),
            large_bytes: census.large_bytes,
            idle_bytes: census.warm_granules * shape.granule_bytes() + census.kept_bytes,
            free_chunks: free
                .into_iter()
                .map(|(chunk_bytes, chunks, committed_bytes)| Level {
                    chunk_bytes,
                    chunks,
                    committed_bytes,
                })
                .collect(),
            table_bytes: census.table_bytes,
            commits: kernel.commits,
            uncommits: kernel.uncommits,
            uncommitted_bytes: kernel.uncommit_bytes,
            system_calls: kernel.calls,
            uncommit_times: shared.shards.uncommit_times(),
            counts,
        })
    }
}

/// A size as people read it.
fn human(bytes: usize) -> String {
    let units = [("GB", 1usize << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.2} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// A time as people read it.
fn time(ns: u64) -> String {
    let units = [("s", 1_000_000_000u64), ("ms", 1_000_000), ("us", 1000)];
    match units.iter().find(|(_, unit)| ns >= *unit) {
        Some((name, unit)) => format!("{:.2} {name}", ns as f64 / *unit as f64),
        None => format!("{ns} ns"),
    }
}

fn share(part: usize, whole: usize) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    match percent {
        _ if part == 0 => "0%".into(),
        less if less < 1.0 => "<1%".into(),
        _ => format!("{percent:.0}%"),
    }
}

impl Report {
    fn write_line(&self, f: &mut fmt::Formatter<'_>, name: &str, bytes: usize) -> fmt::Result {
        writeln!(f, "{name:>34}: {:>12} ({:>3})", human(bytes), share(bytes, self.committed_bytes))
    }

    /// Figures of the inside of arenas' chunks, and the total waste.
    fn write_inside(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nIn chunks of arenas: {} of {} arenas asked",
            self.asked_arenas, self.arenas
        )?;
        if self.asked_arenas > 0 {
            let ArenaStatistics {
                chunks, owned_bytes, committed_bytes, deallocated_blocks, ..
            } = self.asked;
            self.write_line(f, "used, in blocks", self.asked.used_bytes)?;
            self.write_line(f, "free, still to be bumped through", self.asked.free_bytes)?;
            self.write_line(f, "given back or left over", self.asked.deallocated_bytes)?;
            self.write_line(f, "heads, links and tables", self.asked.overhead_bytes)?;
            let uncommitted = human(owned_bytes - committed_bytes);
            writeln!(
                f,
                "{:>34}: {:>12} chunks, {deallocated_blocks} free blocks",
                format!("{uncommitted} uncommitted"),
                chunks
            )?;
        }
        if self.not_asked_bytes() > 0 {
            self.write_line(f, "in arenas that were not asked", self.not_asked_bytes())?;
        }
        self.write_line(f, "waste: all but blocks, with idle", self.waste_bytes())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_usage(f)?;
        writeln!(f, "\nCommitted (percentages refer to committed):")?;
        self.write_line(f, "small chunks", self.shared_bytes - self.shared_free_bytes)?;
        self.write_line(f, "free lines between small chunks", self.shared_free_bytes)?;
        self.write_line(f, "large chunks", self.large_bytes)?;
        self.write_line(f, "idle, to be given back by trim", self.idle_bytes)?;
        self.write_inside(f)?;
        writeln!(f, "\nFree chunks:")?;
        for level in self.free_chunks.iter().filter(|level| level.chunks > 0) {
            let (size, committed) = (human(level.chunk_bytes), human(level.committed_bytes));
            writeln!(f, "{size:>34}: {:>12} chunks, {committed} committed", level.chunks)?;
        }
        self.write_books(f)?;
        self.write_system(f)
    }
}

impl Report {
    fn write_usage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = if self.limit_bytes == usize::MAX {
            "unlimited".into()
        } else {
            human(self.limit_bytes)
        };
        writeln!(f, "Usage: {} arenas", self.arenas)?;
        let wanted = human(self.wanted_bytes);
        let of = if self.reserved_bytes < self.wanted_bytes {
            format!(", {wanted} wanted: the system refused")
        } else {
            String::new()
        };
        writeln!(f, "{:>34}: {:>12}{of}", "reserved", human(self.reserved_bytes))?;
        writeln!(f, "{:>34}: {:>12}, limit {limit}", "committed", human(self.committed_bytes))?;
        writeln!(
            f,
            "{:>34}: {:>12}, {} mappings",
            "resident",
            human(self.resident_bytes),
            self.mappings
        )
    }

    /// The settings, and counts of what the arenas did.
    fn write_books(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            chunks_taken,
            chunks_returned,
            chunks_enlarged,
            warm_granules,
            cold_granules,
            regions_begun,
            regions_ended,
        } = self.counts;
        writeln!(
            f,
            "\nSettings: granule {}, line {}",
            human(self.granule_bytes),
            human(self.line_bytes)
        )?;
        writeln!(f, "Books: about {}", human(self.table_bytes))?;
        writeln!(
            f,
            "Chunks: {chunks_taken} taken, {chunks_returned} returned, {chunks_enlarged} enlarged in place"
        )?;
        writeln!(
            f,
            "Granules: {warm_granules} reused, {cold_granules} committed; regions: {regions_begun} begun, {regions_ended} ended"
        )
    }

    /// What the system did for the arenas.
    fn write_system(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let returned = human(self.uncommitted_bytes as usize);
        writeln!(
            f,
            "Ranges: {} committed, {} given back, of {returned} in all",
            self.commits, self.uncommits
        )?;
        let SystemCalls { mmap, munmap, mprotect, madvise_dontneed, madvise_populate, .. } =
            self.system_calls;
        let madvise = self.system_calls.madvise();
        writeln!(
            f,
            "System calls: {mmap} mmap, {munmap} munmap, {mprotect} mprotect, {madvise} madvise: {madvise_dontneed} to give back, {madvise_populate} to have pages"
        )?;
        let UncommitTimes { at_return_ns, at_trim_ns, background_ns, for_room_ns, longest_ns } =
            self.uncommit_times;
        let [sum, at_return, at_trim, background, for_room, longest] = [
            self.uncommit_times.sum_ns(),
            at_return_ns,
            at_trim_ns,
            background_ns,
            for_room_ns,
            longest_ns,
        ]
        .map(time);
        writeln!(
            f,
            "Uncommitting: {sum}, of it at return {at_return}, at trim {at_trim}, in the background {background}, for room {for_room}; \
             at most {longest} at a time"
        )
    }
}
