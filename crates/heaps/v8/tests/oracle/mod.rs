//! One workload on both sides: in a real Node, and on this heap.

use super::shapes::{self, Step};
use heaplab_heap::{Ask, Collected, Collection, FreeBlocks, SpaceState};
use heaplab_node::Run;
use heaplab_v8::{Spec, V8Heap, facts, strategy};

/// Committed, used and available bytes of old space, before and after a collection.
pub type Line = [[u64; 3]; 2];

/// The line of a collection.
pub fn line(one: &Collection) -> Line {
    [one.before, one.after]
        .map(|state| [state.committed_bytes, state.used_bytes, state.available_bytes])
}

/// What runs on both sides.
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
    /// Most megabytes of the old generation, Node's own objects included; 0: as many as each side
    /// has by default.
    pub limit_mb: usize,
}

/// What a page of code has beside its area (`MemoryChunkLayout`): its header and two guards, in
/// whole pages of the system.
const CODE_PAGE_REST_BYTES: u64 = 3 * 4096;

/// What Node's own objects count against the limit (`OldGenerationCapacity`): areas of pages, of
/// which the start's snapshot cut the last ones short, and large objects.
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
    pub fn real(&self, steps: &[Step]) -> Result<Run, heaplab_node::NodeError> {
        let Setting { node, compact, strategy, gc, limit_mb } = self;
        let mut text =
            format!("version={node},strategy={strategy},compact={compact},categories=true,gc={gc}");
        if *limit_mb > 0 {
            text += &format!(",limit={limit_mb}m");
        }
        let spec = heaplab_node::Spec::parse(&text).expect("a spec of the real Node");
        heaplab_node::run(&spec, shapes::slots(steps), &mut |visit| {
            steps.iter().try_for_each(|step| {
                visit(match *step {
                    Step::Birth(slot, words) => {
                        heaplab_node::Step::Birth { slot, size: u64::from(words) * 8 }
                    }
                    Step::Death(slot) => heaplab_node::Step::Death { slot },
                    Step::Collect => heaplab_node::Step::Collect(Ask::Full),
                })
            })
        })
    }

    /// The forced collections on this heap, or all of its own, as the real run had them: with the
    /// same free percentages from which pages are emptied, and the limit less what Node's own
    /// objects take of it.
    pub fn ours(&self, steps: &[Step], real: &Run) -> Vec<Collection> {
        let version = facts::VERSIONS.iter().find(|version| version.node == self.node);
        let version = version.expect("a version that this heap has");
        let strategy = &strategy::released()[self.strategy].name;
        let text = format!("{strategy},version={},compact={}", version.name, self.compact);
        let text = format!("{text},gc={},categories=true", self.gc);
        let mut spec = Spec::parse(&text).expect("a spec of this heap");
        // Where no page is as free as the percentage V8 says nothing: it is over 100.
        spec.free_percents = real.thresholds.iter().map(|one| one.unwrap_or(101)).collect();
        if self.limit_mb > 0 {
            let own = own_capacity_bytes(real, version.header_bytes()) as usize;
            spec.limit_bytes = (self.limit_mb << 20).saturating_sub(own);
        }
        let mut heap = V8Heap::new(spec).expect("memory for a heap");
        shapes::run(&mut heap, steps, false);
        let all = heap.collections().iter();
        all.filter(|one| self.gc == "own" || one.cause == "forced").cloned().collect()
    }
}

/// Free blocks of each category, before and when swept.
pub fn blocks(one: &Collection) -> Option<[&[FreeBlocks]; 2]> {
    one.free_lists.as_ref().map(|lists| [&lists.before[..], &lists.swept[..]])
}

/// Whether both sides are equal to the byte. Waste on Node's own pages, which only the real V8
/// counts, is not looked at.
pub fn equal(real: &Collection, ours: &Collection) -> bool {
    (&real.kind, real.births) == (&ours.kind, ours.births)
        && line(real) == line(ours)
        && blocks(real) == blocks(ours)
}
