//! Committed bytes beside live ones at every drop of a recording: elastic arenas and HotSpot 17's, replayed side by side.
//!
//! A drop is where the recorded JVM purged, after a collection that unloaded classes. HotSpot's side is
//! heaplab-metaspace, which equals HotSpot 17 word for word on this recording (its test `recorded`).

use super::peers::{Elastic, Peer};
use super::workload::{Recording, Step};
use anyhow::{Context, Result};
use heaplab_elastic::{Growth, Reclaim};
use heaplab_metaspace::elastic::ElasticMetaspace;
use heaplab_metaspace::plan::ArenaPlan;
use heaplab_metaspace::spec::Spec;

/// The bytes at one drop.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Drop {
    /// After how many events.
    pub event: usize,
    /// Arenas alive.
    pub arenas: usize,
    /// Requested and alive.
    pub live_bytes: usize,
    /// What the space has committed, before it is trimmed.
    pub untrimmed_bytes: usize,
    /// What it has committed afterwards.
    pub elastic_bytes: usize,
    /// What HotSpot's arenas (all of the standard kind, aggressive reclaim) have committed after the purge.
    pub hotspot_bytes: usize,
}

/// Replays the recording, whose class arenas are left out, and looks at every drop.
pub fn at_drops(recording: &Recording) -> Result<Vec<Drop>> {
    let mut elastic = Elastic::new(Growth::STANDARD, Reclaim::AtReturn { keep_bytes: 0 });
    let spec = Spec::parse("jdk17,reclaim=aggressive")?;
    let mut hotspot = ElasticMetaspace::test_context(spec, None, None)?;
    let mut ids = vec![None; recording.arenas];
    let mut blocks = Vec::new();
    let (mut drops, mut arenas, mut live_bytes) = (Vec::new(), 0, 0);
    let mut live = vec![0usize; recording.arenas];
    for (event, step) in recording.steps.iter().enumerate() {
        match *step {
            Step::Begin(arena) => {
                elastic.begin(arena as usize);
                ids[arena as usize] = Some(hotspot.birth(ArenaPlan::default()));
                arenas += 1;
            }
            Step::Allocate(arena, bytes) => {
                let id = ids[arena as usize].context("an arena that lives")?;
                let theirs = hotspot.allocate_words(id, bytes as usize / 8).context("HotSpot's arena is out of memory")?;
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
                let untrimmed_bytes = elastic.space.committed_bytes();
                elastic.trim();
                hotspot.purge();
                let (elastic_bytes, hotspot_bytes) = (elastic.space.committed_bytes(), hotspot.committed_words() * 8);
                drops.push(Drop { event, arenas, live_bytes, untrimmed_bytes, elastic_bytes, hotspot_bytes });
            }
        }
    }
    Ok(drops)
}
