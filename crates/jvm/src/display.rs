//! The statistics as text, line for line in the form of `jcmd VM.metaspace`, with what that does
//! not print: the kinds of loaders first.
//!
//! Missing in a recording, and so here: the numbers of classes and shared classes (CDS maps those
//! without a line in the log), the bytes of the chunk header pool, limits and thresholds, and the
//! layout of compressed class pointers.
//!
//! Deviation: levels without chunks are left out, and "In free chunks" counts bytes in committed
//! granules. JDK 17 to 25 add the non-class free chunks twice (`MetaspaceReporter::print_report`),
//! so their free lists and that line can exceed the committed bytes.

use crate::Reclaim;
use crate::statistics::{FreeBlocks, FreeChunks, InUse, LEVELS, Loader, Statistics};
use heaplab_text::jcmd::{bytes, percent, short};
use std::fmt;

/// Loaders that are printed.
const LOADERS_PRINTED: usize = 5;

impl fmt::Display for Statistics {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        self.kinds_table(out)?;
        self.loaders_table(out)?;
        // jcmd adds the classes of the CDS archive, and gives their number.
        let classes = self
            .classes
            .map_or_else(String::new, |classes| format!(", {classes} classes beside those of CDS"));
        writeln!(out, "\nTotal Usage - {} loaders{classes}:", self.loaders)?;
        let both = (self.in_use(), self.free_blocks());
        for (name, in_use, blocks) in [
            ("Non-Class", self.non_class.in_use_total, self.non_class.free_blocks),
            ("Class", self.class.in_use_total, self.class.free_blocks),
            ("Both", both.0, both.1),
        ] {
            writeln!(
                out,
                "{name:>11}: {}, deallocated: {} blocks with {}",
                usage(&in_use),
                blocks.blocks,
                bytes(blocks.bytes)
            )?;
        }
        for (name, space) in [("Non-Class", &self.non_class), ("Class", &self.class)] {
            writeln!(out, "\n{name} usage by chunk level:")?;
            for (level, in_use) in
                space.in_use.iter().enumerate().filter(|(_, in_use)| in_use.chunks > 0)
            {
                writeln!(out, "{:>11} chunks: {}", size(level), usage(in_use))?;
            }
        }
        self.virtual_space(out)?;
        writeln!(out, "\nChunk freelists:")?;
        for (name, free) in [
            ("Non-Class", self.non_class.free),
            ("Class", self.class.free),
            ("Both", self.both_free()),
        ] {
            if name == "Both" {
                writeln!(out)?;
            }
            free_lists(out, name, &free)?;
        }
        self.waste(out)?;
        self.internals(out)
    }
}

impl Statistics {
    fn kinds_table(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "Usage by kind of loader:")?;
        writeln!(
            out,
            " {:<21}{:>6}{:>7}{:>8}{:>8}{:>8}{:>8}{:>10}",
            "", "arenas", "chunks", "asked", "used", "free", "waste", "committed"
        )?;
        for kind in &self.kinds {
            let loader = if kind.loader.is_empty() { "not known" } else { &kind.loader };
            let name = format!("{loader}, {}", if kind.class { "class" } else { "non-class" });
            let in_use = &kind.in_use;
            writeln!(
                out,
                " {name:<21}{:>6}{:>7}{:>8}{:>8}{:>8}{:>8}{:>10}",
                kind.arenas,
                in_use.chunks,
                short(kind.requested_bytes),
                short(in_use.used_bytes),
                short(in_use.free_bytes),
                short(in_use.waste_bytes),
                short(in_use.committed_bytes)
            )?;
        }
        Ok(())
    }

    /// As `show-loaders`, but the largest alone. The log has no names: loaders are numbered by
    /// birth.
    fn loaders_table(&self, out: &mut fmt::Formatter) -> fmt::Result {
        if self.largest_loaders.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nLargest loaders (pins: granules that free chunks share with theirs):")?;
        writeln!(
            out,
            " {:<21}{:>8}{:>7}{:>8}{:>8}{:>10}{:>7}",
            "", "classes", "chunks", "used", "free", "committed", "pins"
        )?;
        let row = |loader: &Loader| {
            let kind = if loader.kind.is_empty() { "not known" } else { &loader.kind };
            format!("{}, {kind}", loader.name)
        };
        for loader in self.largest_loaders.iter().take(LOADERS_PRINTED) {
            let in_use = &loader.in_use;
            let (used, free, committed) =
                (short(in_use.used_bytes), short(in_use.free_bytes), short(in_use.committed_bytes));
            let classes =
                loader.classes.map_or_else(|| String::from("?"), |classes| classes.to_string());
            let (name, chunks, pins) = (row(loader), in_use.chunks, loader.pinned_granules);
            writeln!(
                out,
                " {name:<21} {classes:>7}{chunks:>7}{used:>8}{free:>8}{committed:>10}{pins:>7}"
            )?;
        }
        Ok(())
    }

    /// The counters by their HotSpot names, and the recorded settings.
    fn internals(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let counters = &self.counters;
        writeln!(
            out,
            "\nchunk header pool: {} items.\n\nInternal statistics:",
            self.chunk_headers
        )?;
        for (name, count) in [
            ("num_allocs_failed_limit", counters.refused),
            ("num_arena_births", counters.arena_births),
            ("num_arena_deaths", counters.arena_deaths),
            ("num_vsnodes_births", self.non_class.nodes + self.class.nodes),
            ("num_space_committed", counters.commits),
            ("num_space_uncommitted", counters.uncommits),
            ("num_chunks_returned_to_freelist", counters.chunks_returned),
            ("num_chunks_taken_from_freelist", counters.chunks_taken),
            ("num_chunk_merges", counters.merges),
            ("num_chunk_splits", counters.splits),
            ("num_chunks_enlarged", counters.chunks_enlarged),
        ] {
            writeln!(out, "{name}: {count}.")?;
        }
        writeln!(out, "\nSettings:")?;
        match self.reclaim {
            Reclaim::Balanced => writeln!(out, "MetaspaceReclaimPolicy: balanced")?,
            Reclaim::Aggressive => writeln!(out, "MetaspaceReclaimPolicy: aggressive")?,
            Reclaim::None => writeln!(out, "MetaspaceReclaimPolicy: none")?,
            Reclaim::Unknown | Reclaim::Removed => {}
        }
        writeln!(out, " - commit_granule_bytes: {}.", self.granule_bytes)
    }

    fn both_free(&self) -> [FreeChunks; LEVELS] {
        let mut both = self.non_class.free;
        for (sum, class) in both.iter_mut().zip(&self.class.free) {
            sum.chunks += class.chunks;
            sum.capacity_bytes += class.capacity_bytes;
            sum.committed_bytes += class.committed_bytes;
            sum.in_granules_bytes += class.in_granules_bytes;
        }
        both
    }

    fn virtual_space(&self, out: &mut fmt::Formatter) -> fmt::Result {
        writeln!(out, "\nVirtual space:")?;
        for (name, space) in [("Non-class space", &self.non_class), ("Class space", &self.class)] {
            writeln!(
                out,
                "{name:>17}: {:>13} reserved, {:>13} ({}) committed,  {} nodes.",
                bytes(space.reserved_bytes),
                bytes(space.committed_bytes),
                percent(space.committed_bytes, space.reserved_bytes),
                space.nodes
            )?;
        }
        let (reserved, committed) =
            (self.non_class.reserved_bytes + self.class.reserved_bytes, self.committed_bytes());
        writeln!(
            out,
            "{:>17}: {:>13} reserved, {:>13} ({}) committed.",
            "Both",
            bytes(reserved),
            bytes(committed),
            percent(committed, reserved)
        )
    }

    fn waste(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let (total, in_use, blocks) = (self.committed_bytes(), self.in_use(), self.free_blocks());
        writeln!(
            out,
            "\nWaste (unused committed space): (percentages refer to total committed size {}):",
            bytes(total)
        )?;
        let rows = [
            ("Waste in chunks in use", in_use.waste_bytes),
            ("Free in chunks in use", in_use.free_bytes),
            ("In free chunks", self.free_chunks_bytes()),
            ("Deallocated from chunks in use", blocks.bytes),
        ];
        for (name, wasted) in rows {
            let more = if name.starts_with("Deallocated") {
                format!(" ({} blocks)", blocks.blocks)
            } else {
                String::new()
            };
            writeln!(out, "{name:>30}: {:>12} ({}){more}", bytes(wasted), percent(wasted, total))?;
        }
        let sum = rows.iter().map(|(_, wasted)| wasted).sum();
        writeln!(out, "{:>30}: {:>12} ({})", "-total-", bytes(sum), percent(sum, total))
    }
}

fn usage(in_use: &InUse) -> String {
    let chunks =
        format!("{:>4} chunk{},", in_use.chunks, if in_use.chunks == 1 { "" } else { "s" });
    let part =
        |value: u64| format!("{:>11} ({})", bytes(value), percent(value, in_use.capacity_bytes));
    format!(
        "{chunks:<14}{:>11} capacity, {} committed, {} used, {} free, {} waste",
        bytes(in_use.capacity_bytes),
        part(in_use.committed_bytes),
        part(in_use.used_bytes),
        part(in_use.free_bytes),
        part(in_use.waste_bytes)
    )
}

fn free_lists(out: &mut fmt::Formatter, name: &str, free: &[FreeChunks; LEVELS]) -> fmt::Result {
    writeln!(out, "   {name}:")?;
    let mut total = FreeChunks::default();
    for (level, free) in free.iter().enumerate().filter(|(_, free)| free.chunks > 0) {
        let (capacity, committed) = (free.capacity_bytes, free.committed_bytes);
        let share = percent(committed, capacity);
        writeln!(
            out,
            "{:>6}: {:>5}, capacity={}, committed={} ({share})",
            size(level),
            free.chunks,
            bytes(capacity),
            bytes(committed)
        )?;
        total.capacity_bytes += capacity;
        total.committed_bytes += committed;
    }
    let (capacity, committed) = (total.capacity_bytes, total.committed_bytes);
    writeln!(
        out,
        "Total word size: {}, committed: {} ({})",
        bytes(capacity),
        bytes(committed),
        percent(committed, capacity)
    )
}

/// The size of chunks of a level: `16m`, `512k`.
pub fn size(level: usize) -> String {
    const SIZES: [&str; LEVELS] = [
        "16m", "8m", "4m", "2m", "1m", "512k", "256k", "128k", "64k", "32k", "16k", "8k", "4k",
        "2k", "1k",
    ];
    SIZES[level.min(LEVELS - 1)].into()
}

impl FreeBlocks {
    /// `1763 blocks with 998.98 KB`.
    pub fn in_words(&self) -> String {
        format!(
            "{} block{} with {}",
            self.blocks,
            if self.blocks == 1 { "" } else { "s" },
            bytes(self.bytes)
        )
    }
}
