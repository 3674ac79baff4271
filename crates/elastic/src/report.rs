//! What a space has and where it is, as `jcmd VM.metaspace` prints it for HotSpot's: usage, waste, free chunks by size.

use crate::pool::Counts;
use crate::{Error, Space};
use std::fmt;

/// Free chunks of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
pub struct Level {
    /// The size of each.
    pub chunk_bytes: usize,
    /// How many.
    pub chunks: usize,
    /// Committed bytes of all of them.
    pub committed_bytes: usize,
}

/// What a space has. `committed = in shared granules + in large chunks + idle`, while no arena begins, grows or ends and nothing is given
/// back: the shards are visited one after the other, so that the sums are off by what others do meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
pub struct Report {
    /// Addresses reserved.
    pub reserved_bytes: usize,
    /// Committed.
    pub committed_bytes: usize,
    /// What may be committed; the largest number there is without a limit.
    pub limit_bytes: usize,
    /// Resident, as the kernel says.
    pub resident_bytes: usize,
    /// Mappings (VMAs), as the kernel says.
    pub mappings: usize,
    /// Arenas alive.
    pub arenas: usize,
    /// What is committed and given back at a time.
    pub granule_bytes: usize,
    /// What small chunks are made of.
    pub line_bytes: usize,
    /// Granules that small chunks share, in bytes.
    pub shared_bytes: usize,
    /// Lines in those that no chunk has: the next small chunks go there.
    pub shared_free_bytes: usize,
    /// Committed bytes of large chunks in use.
    pub large_bytes: usize,
    /// Committed and used by nobody; what trim gives back.
    pub idle_bytes: usize,
    /// Free large chunks, the largest first.
    pub free_chunks: Vec<Level>,
    /// The pool's own books, about.
    pub table_bytes: usize,
    /// Calls that committed.
    pub commits: u64,
    /// Calls that gave back.
    pub uncommits: u64,
    /// Bytes given back since the beginning.
    pub uncommitted_bytes: u64,
    /// What the pool did.
    pub counts: Counts,
}

impl Space {
    /// Says where everything is. Asks the kernel and counts the books under the pool's locks: for people, not for a hot path.
    pub fn report(&self) -> Result<Report, Error> {
        let shared = &self.0;
        let usage = shared.reservation.usage()?;
        let shape = shared.shape;
        let (census, counts, free) = shared.shards.books();
        let kernel = shared.reservation.counts();
        Ok(Report {
            reserved_bytes: shape.reserved_bytes(),
            committed_bytes: self.committed_bytes(),
            limit_bytes: shared.options.limit.as_ref().map_or(usize::MAX, |limit| limit.limit_bytes()),
            resident_bytes: usage.resident_bytes,
            mappings: usage.mappings,
            arenas: self.arenas(),
            granule_bytes: shape.granule_bytes(),
            line_bytes: shape.line_bytes(),
            shared_bytes: census.shared_granules * shape.granule_bytes(),
            shared_free_bytes: census.free_lines * shape.line_bytes(),
            large_bytes: census.large_bytes,
            idle_bytes: census.warm_granules * shape.granule_bytes() + census.kept_bytes,
            free_chunks: free
                .into_iter()
                .map(|(chunk_bytes, chunks, committed_bytes)| Level { chunk_bytes, chunks, committed_bytes })
                .collect(),
            table_bytes: census.table_bytes,
            commits: kernel.commits,
            uncommits: kernel.uncommits,
            uncommitted_bytes: kernel.uncommit_bytes,
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

fn share(part: usize, whole: usize) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    match percent {
        _ if part == 0 => "0%".into(),
        less if less < 1.0 => "<1%".into(),
        _ => format!("{percent:.0}%"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.committed_bytes;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, bytes: usize| {
            writeln!(f, "{name:>34}: {:>12} ({:>3})", human(bytes), share(bytes, whole))
        };
        let limit = if self.limit_bytes == usize::MAX { "unlimited".into() } else { human(self.limit_bytes) };
        writeln!(f, "Usage: {} arenas", self.arenas)?;
        writeln!(f, "{:>34}: {:>12}", "reserved", human(self.reserved_bytes))?;
        writeln!(f, "{:>34}: {:>12}, limit {limit}", "committed", human(whole))?;
        writeln!(f, "{:>34}: {:>12}, {} mappings", "resident", human(self.resident_bytes), self.mappings)?;
        writeln!(f, "\nCommitted (percentages refer to committed):")?;
        line(f, "small chunks", self.shared_bytes - self.shared_free_bytes)?;
        line(f, "free lines between small chunks", self.shared_free_bytes)?;
        line(f, "large chunks", self.large_bytes)?;
        line(f, "idle, to be given back by trim", self.idle_bytes)?;
        writeln!(f, "\nFree chunks:")?;
        for level in self.free_chunks.iter().filter(|level| level.chunks > 0) {
            let (size, committed) = (human(level.chunk_bytes), human(level.committed_bytes));
            writeln!(f, "{size:>34}: {:>12} chunks, {committed} committed", level.chunks)?;
        }
        let Counts { chunks_taken, chunks_returned, chunks_enlarged, warm_granules, cold_granules, regions_begun, regions_ended } =
            self.counts;
        writeln!(f, "\nSettings: granule {}, line {}", human(self.granule_bytes), human(self.line_bytes))?;
        writeln!(f, "Books: about {}", human(self.table_bytes))?;
        writeln!(f, "Chunks: {chunks_taken} taken, {chunks_returned} returned, {chunks_enlarged} enlarged in place")?;
        writeln!(f, "Granules: {warm_granules} reused, {cold_granules} committed; regions: {regions_begun} begun, {regions_ended} ended")?;
        let returned = human(self.uncommitted_bytes as usize);
        writeln!(f, "Kernel: {} commits, {} uncommits of {returned} in all", self.commits, self.uncommits)
    }
}
