//! A [`Report`] as text, in the form of `jcmd VM.metaspace`, line for line.
//!
//! Two lines differ because a workload knows no classes: arenas are counted instead of loaders and
//! classes, and settings that only a JVM has (GC thresholds, CDS) are missing.

use super::report::{FreeChunks, LevelUsage, Report, SpaceReport, Usage};
use heaplab_text::jcmd::{bytes as human, percent};
use std::fmt::{self, Display, Formatter};

/// The size of a chunk in HotSpot's form: "64k", "1m".
fn chunk_name(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{}m", bytes >> 20) } else { format!("{}k", bytes >> 10) }
}

fn level_line(f: &mut Formatter<'_>, name: &str, width: usize, level: &LevelUsage) -> fmt::Result {
    if level.chunks == 0 {
        return writeln!(f, "{name:>width$}:  (none)");
    }
    let chunks = if level.chunks == 1 { " chunk," } else { " chunks," };
    let share = |part: u64, width: usize| {
        format!("{:>width$} ({})", human(part), percent(part, level.capacity_bytes))
    };
    let (committed, used) = (share(level.committed_bytes, 10), share(level.used_bytes, 11));
    let (free, waste) = (share(level.free_bytes, 11), share(level.waste_bytes, 11));
    let capacity = human(level.capacity_bytes);
    let count = format!("{:>4}{chunks}", level.chunks);
    writeln!(
        f,
        "{name:>width$}: {count:<12} {capacity:>12} capacity, {committed} committed, {used} used, {free} free, {waste} waste "
    )
}

fn usage(f: &mut Formatter<'_>, title: &str, usage: &Usage) -> fmt::Result {
    writeln!(f, "{title}: \n    Usage by chunk level:")?;
    for level in &usage.levels {
        level_line(f, &format!("{} chunks", chunk_name(level.chunk_bytes)), 17, level)?;
    }
    level_line(f, "-total-", 21, &usage.total())?;
    if usage.deallocated_blocks > 0 {
        let bytes = human(usage.deallocated_bytes);
        writeln!(f, "    deallocated: {} blocks with {bytes}", usage.deallocated_blocks)?;
    }
    writeln!(f)
}

fn virtual_space(
    f: &mut Formatter<'_>,
    title: &str,
    spaces: &[&SpaceReport],
    nodes: bool,
) -> fmt::Result {
    let reserved: u64 = spaces.iter().map(|space| space.reserved_bytes).sum();
    let committed: u64 = spaces.iter().map(|space| space.committed_bytes).sum();
    let (reserve, commit, share) =
        (human(reserved), human(committed), percent(committed, reserved));
    write!(f, "{title:>18}{reserve:>15} reserved, {commit:>13} ({share}) committed")?;
    let count: u64 = spaces.iter().map(|space| space.nodes).sum();
    if nodes { writeln!(f, ",  {count} nodes.") } else { writeln!(f, ". ") }
}

fn free_chunks(f: &mut Formatter<'_>, title: &str, levels: &[FreeChunks]) -> fmt::Result {
    writeln!(f, "{title}:\n")?;
    let (mut capacity, mut committed) = (0, 0);
    for level in levels {
        write!(f, "{:>4}: ", chunk_name(level.chunk_bytes))?;
        if level.chunks == 0 {
            writeln!(f, "(none)")?;
            continue;
        }
        let share = percent(level.committed_bytes, level.capacity_bytes);
        let (whole, part) = (human(level.capacity_bytes), human(level.committed_bytes));
        writeln!(f, "{:>4}, capacity={whole}, committed={part} ({share})", level.chunks)?;
        capacity += level.capacity_bytes;
        committed += level.committed_bytes;
    }
    writeln!(
        f,
        "Total word size: {}, committed: {} ({})\n",
        human(capacity),
        human(committed),
        percent(committed, capacity)
    )
}

/// The same levels of several spaces together.
fn both(spaces: &[SpaceReport]) -> Vec<FreeChunks> {
    let mut sum: Vec<FreeChunks> = Vec::new();
    for space in spaces {
        sum.resize(space.free_chunks.len().max(sum.len()), FreeChunks::default());
        for (mine, theirs) in sum.iter_mut().zip(&space.free_chunks) {
            mine.chunk_bytes = theirs.chunk_bytes;
            mine.chunks += theirs.chunks;
            mine.capacity_bytes += theirs.capacity_bytes;
            mine.committed_bytes += theirs.committed_bytes;
        }
    }
    sum
}

impl Report {
    fn waste_text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let waste = self.waste();
        let committed = waste.committed_bytes;
        writeln!(
            f,
            "Waste (unused committed space):(percentages refer to total committed size {}):",
            human(committed)
        )?;
        let mut line = |title: &str, bytes: u64, end: &str| {
            writeln!(f, "{title:>30}: {:>12} ({}){end}", human(bytes), percent(bytes, committed))
        };
        line("Waste in chunks in use", waste.waste_bytes, "")?;
        line("Free in chunks in use", waste.free_bytes, "")?;
        line("In free chunks", waste.free_chunks_bytes, "")?;
        line(
            "Deallocated from chunks in use",
            waste.deallocated_bytes,
            &format!(" ({} blocks)", waste.deallocated_blocks),
        )?;
        line("-total-", waste.total_bytes(), "")?;
        writeln!(f)
    }

    fn settings_text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        writeln!(f, "Settings:")?;
        writeln!(f, "MaxMetaspaceSize: {}", self.limit_bytes.map_or("unlimited".into(), human))?;
        if let Some(class) = self.spaces.iter().find(|space| space.class) {
            writeln!(f, "CompressedClassSpaceSize: {}", human(class.reserved_bytes))?;
        }
        writeln!(f, "MetaspaceReclaimPolicy: {}", settings.reclaim_policy)?;
        writeln!(f, " - commit_granule_bytes: {}.", settings.commit_granule_bytes)?;
        writeln!(f, " - commit_granule_words: {}.", settings.commit_granule_bytes / 8)?;
        writeln!(f, " - virtual_space_node_default_size: {}.", settings.node_words)?;
        writeln!(f, " - enlarge_chunks_in_place: 1.")?;
        writeln!(
            f,
            " - new_chunks_are_fully_committed: {}.",
            u8::from(settings.new_chunks_are_fully_committed)
        )?;
        writeln!(f, " - uncommit_free_chunks: {}.", u8::from(settings.uncommit_free_chunks))?;
        writeln!(f, " - use_allocation_guard: 0.")?;
        writeln!(f, " - handle_deallocations: 1.")
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let arenas: u64 = self.spaces.iter().map(SpaceReport::arenas).sum();
        writeln!(f, "\nTotal Usage - {} arenas ({}):", arenas, self.metaspace)?;
        for space in &self.spaces {
            usage(f, if space.class { "      Class" } else { "  Non-Class" }, &space.usage())?;
        }
        if self.spaces.len() > 1 {
            usage(f, "       Both", &self.usage())?;
        }
        writeln!(f, "\n\nVirtual space:")?;
        let all: Vec<&SpaceReport> = self.spaces.iter().collect();
        for space in &all {
            virtual_space(
                f,
                if space.class { "Class space:" } else { "Non-class space:" },
                &[space],
                true,
            )?;
        }
        if all.len() > 1 {
            virtual_space(f, "Both:", &all, false)?;
        }
        writeln!(f, "\n\nChunk freelists:")?;
        for space in &self.spaces {
            free_chunks(
                f,
                if space.class { "       Class" } else { "   Non-Class" },
                &space.free_chunks,
            )?;
        }
        if self.spaces.len() > 1 {
            free_chunks(f, "        Both", &both(&self.spaces))?;
        }
        writeln!(f, "\n")?;
        self.waste_text(f)?;
        writeln!(f, "chunk header pool: {} items, {}.\n", self.headers, human(self.header_bytes))?;
        writeln!(f, "Internal statistics:\n")?;
        for (name, count) in self.counters.each() {
            writeln!(f, "{name}: {count}.")?;
        }
        writeln!(f, "\n")?;
        self.settings_text(f)
    }
}
