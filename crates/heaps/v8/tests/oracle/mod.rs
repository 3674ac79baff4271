//! One workload on both sides: in a real Node, and on this heap.

use super::shapes::{self, Step};
use heaplab_heap::{Ask, Collected, Collection, FreeBlocks, SpaceState};
use heaplab_node::{NodeError, Run, Table};
use heaplab_v8::{Spec, V8Heap, facts, own, strategy};
use std::sync::{Mutex, PoisonError};

/// Committed, used and available bytes of old space, before and after a collection.
pub type Line = [[u64; 3]; 2];

/// The line of a collection.
pub fn line(one: &Collection) -> Line {
    [one.before, one.after]
        .map(|state| [state.committed_bytes, state.used_bytes, state.available_bytes])
}

/// The line of map space.
pub fn map_line(one: &Collection) -> Line {
    let spaces = one.spaces.iter().find(|space| ["map", "map_space"].contains(&&*space.name));
    let spaces = spaces.cloned().unwrap_or_default();
    [spaces.before, spaces.after]
        .map(|state| [state.committed_bytes, state.used_bytes, state.available_bytes])
}

/// The settings of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Version of Node.
    pub node: &'a str,
    /// `never`, `regular` or `always`.
    pub compact: &'a str,
    /// 0 to 5.
    pub strategy: usize,
    /// `forced` or `own`.
    pub gc: &'a str,
    /// Most megabytes of the old generation, Node's own objects included; 0: each side's default.
    pub limit_mb: usize,
    /// `lazy` or `whole`.
    pub sweeping: &'a str,
}

/// Bytes of a page of code beside its area (`MemoryChunkLayout`): its header and two guards, in
/// whole pages of the system.
const CODE_PAGE_REST_BYTES: u64 = 3 * 4096;

/// Slots that each workload has at least, so that Node's own objects are the same for most.
const SLOTS_MIN: u32 = 20_000;

/// Node's own objects by spec and table, on which alone they depend: to look at them takes a run of
/// Node.
static OWN: Mutex<Vec<(heaplab_node::Spec, Table, heaplab_node::own::Own)>> =
    Mutex::new(Vec::new());

fn own_objects(
    spec: &heaplab_node::Spec,
    table: Table,
) -> Result<heaplab_node::own::Own, NodeError> {
    let known = || OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found =
        known().iter().find(|one| (&one.0, one.1) == (spec, table)).map(|one| one.2.clone());
    if let Some(own) = found {
        return Ok(own);
    }
    let own = heaplab_node::own::objects(spec, table)?;
    known().push((spec.clone(), table, own.clone()));
    Ok(own)
}

/// Bytes of Node's own objects that count against the limit (`OldGenerationCapacity`): large
/// objects, and areas of pages; the last pages of the start's snapshot are cut short.
fn own_capacity_bytes(real: &Run, header_bytes: usize) -> u64 {
    let of = |(name, state): &(String, SpaceState)| {
        let pages = state.committed_bytes.div_ceil(facts::PAGE_BYTES as u64);
        match name.as_str() {
            "old_space" | "map_space" => state.committed_bytes - pages * header_bytes as u64,
            "code_space" => state.committed_bytes - pages * CODE_PAGE_REST_BYTES,
            "large_object_space" | "code_large_object_space" => state.used_bytes,
            _ => 0,
        }
    };
    real.start.iter().map(of).sum()
}

impl Setting<'_> {
    /// The run in the real Node.
    pub fn real(&self, steps: &[Step]) -> Result<Real, NodeError> {
        let (spec, slots) = (self.spec(), shapes::slots(steps).max(SLOTS_MIN));
        let hidden_classes = steps.iter().any(|step| matches!(step, Step::Map(_)));
        let own = own_objects(&spec, Table { slots, hidden_classes })?;
        let run = heaplab_node::run(&spec, slots, &mut |visit| {
            steps.iter().try_for_each(|step| {
                visit(match *step {
                    Step::Birth(slot, words) => {
                        heaplab_node::Step::Birth { slot, size: u64::from(words) * 8 }
                    }
                    Step::Map(slot) => heaplab_node::Step::HiddenClass { slot, size: 64 },
                    Step::Death(slot) => heaplab_node::Step::Death { slot },
                    Step::Collect => heaplab_node::Step::Collect(Ask::Full),
                })
            })
        })?;
        Ok(Real { run, own })
    }

    fn spec(&self) -> heaplab_node::Spec {
        let Setting { node, compact, strategy, gc, limit_mb, sweeping } = self;
        let mut text =
            format!("version={node},strategy={strategy},compact={compact},categories=true");
        text += &format!(",gc={gc},sweeping={sweeping}");
        if *limit_mb > 0 {
            text += &format!(",limit={limit_mb}m");
        }
        heaplab_node::Spec::parse(&text).expect("a spec of the real Node")
    }

    /// The heap as the real one was: with the same free percentages for emptying pages, and with
    /// the limit less the part that Node's own objects take.
    pub fn heap(&self, real: &Real) -> V8Heap {
        let version = facts::VERSIONS.iter().find(|version| version.node == self.node);
        let version = version.expect("a version that this heap has");
        let strategy = &strategy::released()[self.strategy].name;
        let text = format!("{strategy},version={},compact={}", version.name, self.compact);
        let text = format!("{text},gc={},sweeping={},categories=true", self.gc, self.sweeping);
        let mut spec = Spec::parse(&text).expect("a spec of this heap");
        // V8 names no percentage if no page is that free: a value over 100 stands for it.
        spec.free_percents = real.run.thresholds.iter().map(|one| one.unwrap_or(101)).collect();
        let block = spec.strategy.minimum_block();
        let base = own::from_toml(&real.own.to_toml(), version, block);
        spec.base = Some(base.expect("pages as they were written"));
        if self.limit_mb > 0 {
            let own = own_capacity_bytes(&real.run, version.header_bytes()) as usize;
            spec.limit_bytes = (self.limit_mb << 20).saturating_sub(own).max(1);
        }
        V8Heap::new(spec).expect("memory for a heap")
    }

    /// This heap's forced collections, or all of its own.
    pub fn ours(&self, steps: &[Step], real: &Real) -> Vec<Collection> {
        let mut heap = self.heap(real);
        shapes::run(&mut heap, steps, false);
        let all = heap.collections().iter();
        let all = all.filter(|one| self.gc == "own" || one.cause == "forced").cloned();
        let mut all: Vec<Collection> = all.collect();
        for (ours, theirs) in all.iter_mut().zip(&real.run.collections) {
            // V8's figure covers all spaces, pages of code included, swept or not.
            let with_code = waste(ours).map(|bytes| bytes + real.own.code_waste_bytes);
            if waste(theirs) == with_code {
                ours.free_lists.iter_mut().for_each(|lists| {
                    lists.waste_bytes += real.own.code_waste_bytes;
                });
            }
        }
        all
    }
}

/// A workload's results in a real Node.
pub struct Real {
    /// Its collections.
    pub run: Run,
    /// Its own objects when the workload began.
    pub own: heaplab_node::own::Own,
}

/// Free blocks of each category, before and when swept.
pub fn blocks(one: &Collection) -> Option<[&[FreeBlocks]; 2]> {
    one.free_lists.as_ref().map(|lists| [&lists.before[..], &lists.swept[..]])
}

/// Waste in free lists; unknown for V8's collections of its own accord.
pub fn waste(one: &Collection) -> Option<u64> {
    one.free_lists.as_ref().map(|lists| lists.waste_bytes)
}

/// Whether both sides are equal to the byte.
pub fn equal(real: &Collection, ours: &Collection) -> bool {
    (&real.kind, real.births) == (&ours.kind, ours.births)
        && line(real) == line(ours)
        && map_line(real) == map_line(ours)
        && blocks(real) == blocks(ours)
        // V8's figure of waste covers map space too.
        && (real.cause != "forced" || waste(real) == waste(ours) || map_line(ours) != Line::default())
}
