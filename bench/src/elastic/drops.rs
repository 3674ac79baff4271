//! Committed bytes beside live ones at every drop of a recording: elastic arenas and HotSpot 17's,
//! replayed side by side.
//!
//! At a drop the recorded JVM purged, after a collection that unloaded classes. HotSpot's side is
//! heaplab-metaspace, which equals HotSpot 17 word for word on this recording (its test
//! `recorded`).
//!
//! Two lower bounds stand beside them, because memory is committed in pages: the pages of the live
//! blocks, packed without gaps by someone who knows at their birth which arenas will live; and
//! whole pages for each arena.

use super::peers::{Elastic, Peer};
use super::workload::{Recording, Step};
use anyhow::{Context, Result};
use heaplab_elastic::{Growth, Reclaim};
use heaplab_metaspace::elastic::ElasticMetaspace;
use heaplab_metaspace::plan::ArenaPlan;
use heaplab_metaspace::spec::Spec;
use std::collections::BTreeSet;

/// The bytes at one drop.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Drop {
    /// Number of events before it.
    pub event: usize,
    /// Arenas alive.
    pub arenas: usize,
    /// Requested and alive.
    pub live_bytes: usize,
    /// Committed bytes of the space, before its trim.
    pub untrimmed_bytes: usize,
    /// Committed bytes after the trim.
    pub elastic_bytes: usize,
    /// Whole pages with live blocks, at our places.
    pub touched_bytes: usize,
    /// Whole pages of live blocks and arenas' heads without gaps, different arenas side by side in
    /// a page: the minimum for anyone who knows at a block's birth which arenas will live.
    pub least_bytes: usize,
    /// The same without heads, as if they lay elsewhere.
    pub blocks_bytes: usize,
    /// The rest of the pages of `blocks_bytes` beside the blocks.
    pub spare_bytes: usize,
    /// Whole pages if each arena had pages of its own, with no gap except in its last page.
    pub own_pages_bytes: usize,
    /// Heads and links within the live arenas' committed bytes.
    pub overhead_bytes: usize,
    /// Bytes still to be bumped through.
    pub window_bytes: usize,
    /// Bytes of leftovers.
    pub leftover_bytes: usize,
    /// Committed bytes of HotSpot's arenas (all of the standard kind, aggressive reclaim) after the
    /// purge.
    pub hotspot_bytes: usize,
}

/// A page, also the smallest commit granule of both.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of an arena of ours itself, with the link of its first chunk.
const HEAD_BYTES: usize = 64;

impl Drop {
    /// The figures of arenas and their blocks at this moment.
    fn look(event: usize, arenas: usize, live_bytes: usize, elastic: &Elastic) -> Drop {
        let mut drop = Drop {
            event,
            arenas,
            live_bytes,
            untrimmed_bytes: elastic.space.committed_bytes(),
            elastic_bytes: 0,
            touched_bytes: 0,
            least_bytes: (live_bytes + arenas * HEAD_BYTES).next_multiple_of(PAGE_BYTES),
            blocks_bytes: live_bytes.next_multiple_of(PAGE_BYTES),
            spare_bytes: live_bytes.next_multiple_of(PAGE_BYTES) - live_bytes,
            own_pages_bytes: 0,
            overhead_bytes: 0,
            window_bytes: 0,
            leftover_bytes: 0,
            hotspot_bytes: 0,
        };
        for arena in elastic.statistics() {
            drop.overhead_bytes += arena.overhead_bytes;
            drop.window_bytes += arena.free_bytes;
            drop.leftover_bytes += arena.deallocated_bytes;
        }
        drop
    }
}

/// Whole pages that contain these blocks, given by address and size.
fn pages(blocks: impl Iterator<Item = (usize, usize)>) -> usize {
    let pages: BTreeSet<usize> = blocks
        .flat_map(|(start, bytes)| start / PAGE_BYTES..(start + bytes).div_ceil(PAGE_BYTES))
        .collect();
    pages.len() * PAGE_BYTES
}

/// Replays the recording without its class arenas, and measures at every drop.
pub fn at_drops(recording: &Recording) -> Result<Vec<Drop>> {
    let mut elastic = Elastic::new(Growth::STANDARD, Reclaim::AtReturn { keep_bytes: 0 });
    let spec = Spec::parse("jdk17,reclaim=aggressive")?;
    let mut hotspot = ElasticMetaspace::test_context(spec, None, None)?;
    let mut ids = vec![None; recording.arenas];
    let mut blocks = Vec::new();
    let (mut drops, mut arenas, mut live_bytes) = (Vec::new(), 0, 0);
    let mut live = vec![0usize; recording.arenas];
    let mut freed = BTreeSet::new();
    for (event, step) in recording.steps.iter().enumerate() {
        match *step {
            Step::Begin(arena) => {
                elastic.begin(arena as usize);
                ids[arena as usize] = Some(hotspot.birth(ArenaPlan::default()));
                arenas += 1;
            }
            Step::Allocate(arena, bytes) => {
                let id = ids[arena as usize].context("an arena that lives")?;
                let theirs = hotspot
                    .allocate_words(id, bytes as usize / 8)
                    .context("HotSpot's arena is out of memory")?;
                blocks.push((elastic.allocate(arena as usize, bytes as usize), theirs));
                live[arena as usize] += bytes as usize;
                live_bytes += bytes as usize;
            }
            Step::Free(block) => {
                let (arena, bytes) = recording.blocks[block as usize];
                let (ours, theirs) = blocks[block as usize];
                let id = ids[arena as usize].context("an arena that lives")?;
                // SAFETY: the recording frees a live block once.
                unsafe {
                    elastic.free(arena as usize, ours, bytes as usize);
                    hotspot.deallocate_words(id, theirs, bytes as usize / 8);
                }
                freed.insert(block as usize);
                live[arena as usize] -= bytes as usize;
                live_bytes -= bytes as usize;
            }
            Step::End(arena) => {
                elastic.end(arena as usize);
                let id = ids[arena as usize].take().context("an arena that lives")?;
                // SAFETY: nobody uses its blocks any more.
                unsafe { hotspot.death(id) };
                arenas -= 1;
                live_bytes -= std::mem::take(&mut live[arena as usize]);
            }
            Step::Purge => {
                let before = Drop::look(event, arenas, live_bytes, &elastic);
                elastic.trim();
                hotspot.purge();
                let (elastic_bytes, hotspot_bytes) =
                    (elastic.space.committed_bytes(), hotspot.committed_words() * 8);
                let born = blocks.iter().zip(&recording.blocks).enumerate();
                let alive = born.filter(|(block, (_, (arena, _)))| {
                    ids[*arena as usize].is_some() && !freed.contains(block)
                });
                let touched_bytes = pages(
                    alive.map(|(_, ((ours, _), (_, bytes)))| (*ours as usize, *bytes as usize)),
                );
                let arenas = live.iter().zip(&ids).filter(|(_, id)| id.is_some());
                let own_pages_bytes = arenas
                    .map(|(bytes, _)| (bytes + HEAD_BYTES).next_multiple_of(PAGE_BYTES))
                    .sum();
                drops.push(Drop {
                    elastic_bytes,
                    hotspot_bytes,
                    touched_bytes,
                    own_pages_bytes,
                    ..before
                });
            }
        }
    }
    Ok(drops)
}
