//! Facts that every design can state in the same words: committed, used, free and waste by kind of
//! loader, and the unused committed memory.
//!
//! The designs' own reports ([`old::Statistics`](crate::old::Statistics),
//! [`elastic::report::Report`](crate::elastic::report::Report)) differ as the designs do: the old
//! one has four kinds of chunks with headers in them, all committed; the elastic one levels, partly
//! committed. Both give a `Listing`, so they can be compared.

use heaplab_text::jcmd::{bytes as human, percent, short};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};

/// Bytes of the arenas of one kind of loader in one space.
/// `committed = used + free + waste + overhead`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoaderUsage {
    /// "boot", "standard", "hidden" or "reflection".
    pub loader: String,
    /// Class space; else non-class.
    pub class: bool,
    /// Number of arenas.
    pub arenas: u64,
    /// Number of their chunks.
    pub chunks: u64,
    /// Committed memory in these.
    pub committed_bytes: u64,
    /// Handed out, free blocks included.
    pub used_bytes: u64,
    /// Still to be handed out, in current chunks.
    pub free_bytes: u64,
    /// Never to be handed out, in retired chunks.
    pub waste_bytes: u64,
    /// Headers in the chunks.
    pub overhead_bytes: u64,
}

impl LoaderUsage {
    /// Adds another kind's.
    pub fn add(&mut self, other: &LoaderUsage) {
        self.arenas += other.arenas;
        self.chunks += other.chunks;
        self.committed_bytes += other.committed_bytes;
        self.used_bytes += other.used_bytes;
        self.free_bytes += other.free_bytes;
        self.waste_bytes += other.waste_bytes;
        self.overhead_bytes += other.overhead_bytes;
    }
}

/// A metaspace at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The generation: "jdk11", with parameters.
    pub metaspace: String,
    /// By kind of loader and space; kinds without arenas are left out.
    pub loaders: Vec<LoaderUsage>,
    /// Committed in both spaces.
    pub committed_bytes: u64,
    /// Committed memory in free chunks.
    pub free_chunks_bytes: u64,
    /// Committed and not cut into chunks yet (the old design).
    pub uncut_bytes: u64,
    /// Returned or left-over blocks; part of the used bytes.
    pub free_blocks: u64,
    /// Their bytes.
    pub free_block_bytes: u64,
}

impl Listing {
    /// All loaders together.
    pub fn total(&self) -> LoaderUsage {
        let mut total = LoaderUsage { loader: "all".into(), ..LoaderUsage::default() };
        self.loaders.iter().for_each(|usage| total.add(usage));
        total
    }
}

impl Display for Listing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "Usage by kind of loader ({}):", self.metaspace)?;
        let names = ["arenas", "chunks", "used", "free", "waste", "overhead", "committed"];
        const WIDTHS: [usize; 7] = [6, 7, 8, 8, 8, 9, 10];
        write!(f, " {:<21}", "")?;
        names.iter().zip(WIDTHS).try_for_each(|(name, width)| write!(f, "{name:>width$}"))?;
        writeln!(f)?;
        let mut rows: Vec<(String, LoaderUsage)> = self
            .loaders
            .iter()
            .map(|usage| {
                (
                    format!(
                        "{}, {}",
                        usage.loader,
                        if usage.class { "class" } else { "non-class" }
                    ),
                    usage.clone(),
                )
            })
            .collect();
        rows.push(("all".into(), self.total()));
        for (name, usage) in rows {
            write!(f, " {name:<21}{:>6}{:>7}", usage.arenas, usage.chunks)?;
            let sums = [
                usage.used_bytes,
                usage.free_bytes,
                usage.waste_bytes,
                usage.overhead_bytes,
                usage.committed_bytes,
            ];
            for (bytes, width) in sums.into_iter().zip(&WIDTHS[2..]) {
                write!(f, "{:>width$}", short(bytes))?;
            }
            writeln!(f)?;
        }
        let total = self.total();
        writeln!(
            f,
            "\nWaste (percentages refer to total committed size {}):",
            human(self.committed_bytes)
        )?;
        let unused = [
            ("Committed unused", self.uncut_bytes),
            ("Waste in chunks in use", total.waste_bytes),
            ("Free in chunks in use", total.free_bytes),
            ("Overhead in chunks in use", total.overhead_bytes),
            ("In free chunks", self.free_chunks_bytes),
            ("Deallocated from chunks in use", self.free_block_bytes),
        ];
        for (name, bytes) in
            unused.into_iter().chain([("-total-", unused.iter().map(|(_, bytes)| bytes).sum())])
        {
            let blocks = if name.starts_with("Dealloc") {
                format!(" ({} blocks)", self.free_blocks)
            } else {
                String::new()
            };
            writeln!(
                f,
                "{name:>32}: {:>12} ({}){blocks}",
                human(bytes),
                percent(bytes, self.committed_bytes)
            )?;
        }
        Ok(())
    }
}
