//! [`Statistics`] as text, in the form of JDK 11's `jcmd VM.metaspace by-chunktype`.
//!
//! Two things differ because a workload knows no classes: arenas are counted instead of loaders and
//! classes, and settings that only a JVM has (GC thresholds, CDS) are missing.

use super::statistics::{KindRow, SpaceStatistics, Statistics};
use super::strategy::ChunkKind;
use heaplab_text::jcmd::{bytes as human, percent};
use std::fmt::{self, Display, Formatter};

/// The kinds by name.
const NAMES: [(ChunkKind, &str); 4] = [
    (ChunkKind::Specialized, "specialized"),
    (ChunkKind::Small, "small"),
    (ChunkKind::Medium, "medium"),
    (ChunkKind::Humongous, "humongous"),
];

fn kind_line(f: &mut Formatter<'_>, name: &str, row: &KindRow) -> fmt::Result {
    if row.chunks == 0 {
        return writeln!(f, "{name:>21}: (none)");
    }
    let chunks = if row.chunks == 1 { "chunk, " } else { "chunks," };
    let share = |part: u64| format!("{:>12} ({})", human(part), percent(part, row.capacity_bytes));
    let (used, free, waste, overhead) = (
        share(row.used_bytes),
        share(row.free_bytes),
        share(row.waste_bytes),
        share(row.overhead_bytes),
    );
    let capacity = human(row.capacity_bytes);
    writeln!(
        f,
        "{name:>21}: {:>4} {chunks} {capacity:>12} capacity, {used} used, {free} free, {waste} waste, {overhead} overhead",
        row.chunks
    )
}

fn usage(f: &mut Formatter<'_>, title: &str, space: &SpaceStatistics) -> fmt::Result {
    writeln!(f, "{title}: \n    Usage by chunk type:")?;
    for (kind, name) in NAMES {
        kind_line(f, name, &space.kinds[kind as usize])?;
    }
    kind_line(f, "-total-", &space.total())?;
    if space.free_blocks > 0 {
        writeln!(
            f,
            "    deallocated: {} blocks with {}",
            space.free_blocks,
            human(space.free_block_bytes)
        )?;
    }
    writeln!(f)
}

fn free_lists(f: &mut Formatter<'_>, title: &str, space: &SpaceStatistics) -> fmt::Result {
    writeln!(f, "{title}:\n")?;
    for (kind, name) in NAMES {
        let row = &space.kinds[kind as usize];
        match row.free_chunks {
            0 => writeln!(f, "{name:>12} chunks: (none)")?,
            chunks => writeln!(
                f,
                "{name:>12} chunks: {chunks:>4}, capacity {}",
                human(row.free_chunk_bytes)
            )?,
        }
    }
    let total = space.total();
    writeln!(
        f,
        "{:>19}: {:>4}, capacity={}",
        "Total",
        total.free_chunks,
        human(total.free_chunk_bytes)
    )
}

impl Display for Statistics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let named = [("  Non-Class", &self.non_class), ("      Class", &self.class)];
        let both = self.both();
        writeln!(f, "\nTotal Usage - {} arenas:", both.arenas)?;
        for (title, space) in named.iter().copied().chain([("       Both", &both)]) {
            usage(f, title, space)?;
        }
        writeln!(f, "\n\nVirtual space:")?;
        for (title, space) in
            [("Non-class space:", &self.non_class), ("Class space:", &self.class), ("Both:", &both)]
        {
            let (reserved, committed) = (human(space.reserved_bytes), human(space.committed_bytes));
            let share = percent(space.committed_bytes, space.reserved_bytes);
            writeln!(
                f,
                "{title:>18} {reserved:>14} reserved, {committed:>13} ({share}) committed "
            )?;
        }
        writeln!(f, "\n\n\nChunk freelists:")?;
        for (title, space) in [("   Non-Class", &self.non_class), ("       Class", &self.class)] {
            free_lists(f, title, space)?;
        }
        writeln!(f, "\n{}", self.listing("jdk11"))
    }
}
