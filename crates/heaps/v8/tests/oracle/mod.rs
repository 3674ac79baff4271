//! One workload on both sides: in a real Node, and on this heap.

use super::shapes::{self, Step};
use heaplab_heap::{Ask, Collected, Collection, FreeBlocks};
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
}

impl Setting<'_> {
    /// The forced collections in the real Node, and for each the free percentage from which it
    /// emptied pages; where no page was as free as that V8 says nothing, and it is over 100.
    pub fn real(
        &self,
        steps: &[Step],
    ) -> Result<(Vec<Collection>, Vec<u32>), heaplab_node::NodeError> {
        let Setting { node, compact, strategy, gc } = self;
        let text = format!("version={node},strategy={strategy},compact={compact},categories=true");
        let text = format!("{text},gc={gc}");
        let spec = heaplab_node::Spec::parse(&text).expect("a spec of the real Node");
        let ran = heaplab_node::run(&spec, shapes::slots(steps), &mut |visit| {
            steps.iter().try_for_each(|step| {
                visit(match *step {
                    Step::Birth(slot, words) => {
                        heaplab_node::Step::Birth { slot, size: u64::from(words) * 8 }
                    }
                    Step::Death(slot) => heaplab_node::Step::Death { slot },
                    Step::Collect => heaplab_node::Step::Collect(Ask::Full),
                })
            })
        })?;
        let thresholds = ran.thresholds.iter().map(|percent| percent.unwrap_or(101)).collect();
        Ok((ran.collections, thresholds))
    }

    /// The forced collections on this heap, which empties pages from the same percentages on.
    pub fn ours(&self, steps: &[Step], free_percents: Vec<u32>) -> Vec<Collection> {
        let version = facts::VERSIONS.iter().find(|version| version.node == self.node);
        let version = version.expect("a version that this heap has").name;
        let strategy = &strategy::released()[self.strategy].name;
        let text = format!("{strategy},version={version},compact={}", self.compact);
        let text = format!("{text},gc={},categories=true", self.gc);
        let mut spec = Spec::parse(&text).expect("a spec of this heap");
        spec.free_percents = free_percents;
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
