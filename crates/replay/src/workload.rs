//! A replay program in the families' view: facts, regions, and steps to feed a runtime outside.

use heaplab_heap::{Ask, Place, Region, RegionFacts, Workload, WorkloadFacts, WorkloadStep};
use heaplab_trace::program::{Managed, Program, Step};

/// A program for a family that adapts its heap to it, or feeds it to a runtime.
pub struct Replayed<'a>(pub &'a Program);

impl Workload for Replayed<'_> {
    fn facts(&self) -> WorkloadFacts {
        let facts = self.0.facts();
        WorkloadFacts {
            block_size_max: facts.block_size_max,
            slots: facts.slots,
            // A damaged count must not make a family reserve more than the file has rows.
            regions: facts.regions.min(facts.kind_of_region.len().saturating_sub(1) as u32),
            objects: facts.objects,
            peak_requested_bytes: facts.peak_requested_bytes,
            threads: facts.threads,
        }
    }

    fn region(&self, region: Region) -> RegionFacts<'_> {
        let facts = self.0.facts();
        let index =
            facts.kind_of_region.get(region.0 as usize).filter(|_| region != Region::MALLOC);
        let kind = index.and_then(|index| facts.region_kinds.get(*index as usize));
        kind.map_or(RegionFacts::default(), |kind| RegionFacts {
            kind: &kind.kind,
            growth_policy: &kind.growth_policy,
        })
    }

    fn steps(
        &self,
        visit: &mut dyn FnMut(WorkloadStep) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut checkpoints = (0..).zip(self.0.checkpoints()).peekable();
        let mut place = Place::Any;
        for step in self.0.steps() {
            let (word, step) = step.map_err(|damaged| damaged.to_string())?;
            while let Some((index, _)) =
                checkpoints.next_if(|(_, checkpoint)| checkpoint.word <= word as u64)
            {
                visit(WorkloadStep::Checkpoint { index })?;
            }
            match step {
                Step::Allocate { slot, size, align_log2, zeroed, region } => {
                    let (align, region) = (1 << align_log2, Region(region));
                    visit(WorkloadStep::Allocate {
                        slot,
                        size,
                        align,
                        zeroed,
                        region,
                        place: std::mem::take(&mut place),
                    })?;
                }
                Step::Reallocate { slot, size, .. } => {
                    visit(WorkloadStep::Reallocate { slot, size })?
                }
                Step::Free { slot } => visit(WorkloadStep::Free { slot })?,
                Step::RegionBirth { region } => visit(WorkloadStep::BeginRegion(Region(region)))?,
                Step::RegionDeath { region, first, members } => {
                    for slot in &self.0.words()[first..first + members] {
                        visit(WorkloadStep::Free { slot: *slot })?;
                    }
                    visit(WorkloadStep::EndRegion(Region(region)))?;
                }
                Step::Managed(managed) => match managed {
                    Managed::Collect => visit(WorkloadStep::Collect(Ask::Full))?,
                    Managed::CollectYoung => visit(WorkloadStep::Collect(Ask::Minor))?,
                    Managed::Trim => visit(WorkloadStep::Trim)?,
                    Managed::NextOld => place = Place::Old,
                    Managed::NextHiddenClass => place = Place::HiddenClass,
                    Managed::Release { slot } => visit(WorkloadStep::Release { slot })?,
                    Managed::Reference { from, field, to } => {
                        visit(WorkloadStep::Reference { from, field, to })?
                    }
                },
                Step::UsableSize { .. } | Step::Thread { .. } => {}
            }
        }
        checkpoints.try_for_each(|(index, _)| visit(WorkloadStep::Checkpoint { index }))
    }
}
