//! A heap that ran a workload up to a moment, with the live blocks and their places.
//!
//! The workload runs in this process as in a replay: the question is where bytes are, not how much
//! time they take.

use super::WalkedHeap;
use crate::{About, ExportError, LiveBlock, LiveBlocks};
use heaplab_heap::{Part, Region};
use heaplab_profile::{Moment, choose};
use heaplab_replay::{Selected, Standing};
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program;
use std::collections::HashMap;

/// A heap at a moment of a workload.
#[derive(Debug)]
pub struct HeapAtMoment {
    /// The heap as it then stands.
    pub standing: Standing,
    /// The live blocks and their addresses.
    pub blocks: Vec<(usize, LiveBlock)>,
    /// Row of `arenas` of each region.
    pub arenas: HashMap<Region, u32>,
}

impl HeapAtMoment {
    /// Runs the workload on `heap` up to the moment `at` (with `is_end`, all of it).
    ///
    /// # Errors
    /// The recording cannot be read or compiled, its events are not in order, or the heap cannot
    /// run it or be walked.
    pub fn at(
        heap: &dyn Selected,
        bundle: &Bundle,
        selection: Selection,
        at: &Moment,
        is_end: bool,
    ) -> Result<HeapAtMoment, ExportError> {
        // A moment before the first event has the number of the first row too.
        let rows = match at {
            _ if is_end => u64::MAX,
            Moment { row: 0, live, .. } if live.objects == 0 => 0,
            moment => moment.row + 1,
        };
        let (program, at_end) = program::until(bundle, selection, rows)?;
        let live = LiveBlocks::at(at, bundle.tables(), bundle.events(selection)?)
            .map_err(choose::of_recording(bundle))?;
        let standing = heap.stand(&program)?;
        let slots: HashMap<u64, u32> = at_end.slots.into_iter().collect();
        let place = |block: &LiveBlock| {
            let slot = slots.get(&block.object)?;
            Some((standing.blocks.get(*slot as usize).copied().flatten()?, *block))
        };
        let blocks: Vec<_> = live.blocks().iter().filter_map(place).collect();
        let arenas =
            at_end.regions.into_iter().map(|(region, row)| (Region(region), row)).collect();
        if blocks.len() != slots.len() || blocks.len() != live.blocks().len() {
            return Err(ExportError::Disorder {
                path: bundle.path().into(),
                live: live.blocks().len(),
                replayed: slots.len(),
                same: blocks.len(),
            });
        }
        Ok(HeapAtMoment { standing, blocks, arenas })
    }

    /// Committed bytes when the heap was walked, and afterwards, if they differ: a heap that gives
    /// memory back in a thread of its own may do so during the walk.
    pub fn changed_bytes(&self) -> Option<(u64, u64)> {
        let walked = self.standing.parts.iter().map(Part::own_bytes).sum();
        let after = self.standing.footprint.committed_bytes?;
        (walked != after).then_some((walked, after))
    }

    /// The heap snapshot of `heap` at `moment`.
    pub fn snapshot<'a>(
        self,
        bundle: &'a Bundle,
        heap: &'a str,
        moment: &'a str,
        about: &'a About,
    ) -> WalkedHeap<'a> {
        WalkedHeap {
            tables: bundle.tables(),
            parts: self.standing.parts,
            blocks: self.blocks,
            arenas: self.arenas,
            objects_born: bundle.meta().objects,
            heap,
            moment,
            about,
        }
    }
}
