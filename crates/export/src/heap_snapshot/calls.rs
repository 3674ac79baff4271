//! Processes and their call trees, as the branches of a [`Forest`](super::forest::Forest).
//!
//! The recording's stacks are already a tree of return addresses. Here inlined functions are nodes
//! of their own, and equal frames (function, file, line) under the same caller are one, as in the
//! other formats. Threads are no level: one function is one node for all threads.

use super::forest::{Branch, Branches, Leaf, branch_id};
use crate::LiveBlock;
use crate::stacks::{NO_STACK_LABEL, functions};
use heaplab_snapshot::write::node_type;
use heaplab_trace::NO_STACK;
use heaplab_trace::tables::{Tables, process_label};
use std::collections::{HashMap, HashSet};

/// The process itself, the root of every call tree.
const TOP: u32 = 0;
/// Blocks without a stack.
const WITHOUT_STACK: u32 = 1;

/// A function called from another.
#[derive(Clone, Copy, Debug)]
struct Call {
    caller: u32,
    /// Row of `frames`.
    frame: u32,
}

/// The name of a block with these innermost frames: the first function that is not the allocation
/// itself.
pub(super) fn called(tables: &Tables, frames: &[u32]) -> String {
    let Some(frame) = frames.get(tables.site(frames)) else { return NO_STACK_LABEL.into() };
    let name = tables.frame_label(*frame);
    if name.starts_with('<') && name.contains(' ') { format!("fn {name}") } else { name }
}

/// The call tree of all stacks of a recording, live or not: a place in it is the same at every
/// moment.
struct CallTree {
    calls: Vec<Call>,
    of_stack: Vec<u32>,
}

impl CallTree {
    fn of(tables: &Tables) -> CallTree {
        let same = same_frames(tables);
        let none = Call { caller: TOP, frame: u32::MAX };
        let mut tree = CallTree { calls: vec![none; 2], of_stack: vec![WITHOUT_STACK] };
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        for (row, node) in tables.stacks.iter().enumerate().skip(1) {
            let mut at = match node.parent {
                // Parents are smaller rows; a damaged one counts as the root, as in
                // `Tables::frames_of`.
                parent if parent != NO_STACK && (parent as usize) < row => {
                    tree.of_stack[parent as usize]
                }
                _ => TOP,
            };
            let inlined: Vec<u32> = functions(tables, node.frame)
                .filter_map(|frame| same.get(frame as usize).copied())
                .collect();
            for frame in inlined.into_iter().rev() {
                let next = tree.calls.len() as u32;
                at = *known.entry((at, frame)).or_insert_with(|| {
                    tree.calls.push(Call { caller: at, frame });
                    next
                });
            }
            tree.of_stack.push(if at == TOP { WITHOUT_STACK } else { at });
        }
        tree
    }

    fn of_stack(&self, stack: u32) -> u32 {
        self.of_stack.get(stack as usize).copied().unwrap_or(WITHOUT_STACK)
    }
}

/// For each frame the first frame with the same text.
fn same_frames(tables: &Tables) -> Vec<u32> {
    let mut known: HashMap<(String, String), u32> = HashMap::new();
    let rows = 0..tables.frames.len() as u32;
    rows.map(|row| *known.entry((tables.frame_label(row), tables.frame_place(row))).or_insert(row))
        .collect()
}

/// The processes with live blocks, and the calls that lead to the blocks.
pub(super) struct Calls<'a> {
    tables: &'a Tables,
    tree: CallTree,
    /// Process and place in the call tree, in order: callers come before their callees.
    rows: Vec<(u32, u32)>,
    program: &'a str,
}

impl<'a> Calls<'a> {
    /// The branches of these blocks, and the blocks as their leaves.
    pub fn of(
        tables: &'a Tables,
        blocks: Vec<LiveBlock>,
        program: &'a str,
    ) -> (Calls<'a>, Vec<Leaf>) {
        let tree = CallTree::of(tables);
        let place = |block: &LiveBlock| {
            let process =
                tables.threads.get(block.thread as usize).map_or(0, |thread| thread.process);
            (process, tree.of_stack(block.stack))
        };
        let mut seen: HashSet<(u32, u32)> = HashSet::new();
        for block in &blocks {
            let (process, mut call) = place(block);
            while seen.insert((process, call)) && call != TOP {
                call = tree.calls[call as usize].caller;
            }
        }
        let mut rows: Vec<(u32, u32)> = seen.into_iter().collect();
        rows.sort_unstable();
        let numbers: HashMap<(u32, u32), u32> =
            rows.iter().zip(0..).map(|(row, number)| (*row, number)).collect();
        let mut leaves = Vec::with_capacity(blocks.len());
        for block in blocks {
            let branch = numbers[&place(&block)];
            leaves.extend(Leaf::parts(branch, block.object, block.size));
        }
        (Calls { tables, tree, rows, program }, leaves)
    }

    /// Its number among the places of all processes' call trees.
    fn number(&self, process: u32, call: u32) -> u64 {
        (u64::from(process))
            .saturating_mul(self.tree.calls.len() as u64)
            .saturating_add(u64::from(call))
    }

    fn process_name(&self, process: u32) -> String {
        match self.tables.processes.get(process as usize) {
            Some(row) => format!(
                "{} (pid {})",
                row.program_name(),
                process_label(&self.tables.processes, process as usize)
            ),
            None => self.program.to_owned(),
        }
    }
}

impl Branches for Calls<'_> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn parent(&self, branch: u32) -> Option<u32> {
        let (process, call) = self.rows[branch as usize];
        let caller = (process, self.tree.calls[call as usize].caller);
        if call == TOP { None } else { self.rows.binary_search(&caller).ok().map(|row| row as u32) }
    }

    fn describe(&self, branch: u32) -> Branch {
        let (process, call) = self.rows[branch as usize];
        let node_type = if call == TOP { node_type::NATIVE } else { node_type::CODE };
        Branch { node_type, id: branch_id(self.number(process, call)), self_size: 0 }
    }

    fn name(&self, branch: u32) -> String {
        match self.rows[branch as usize] {
            (process, TOP) => self.process_name(process),
            (_, WITHOUT_STACK) => NO_STACK_LABEL.into(),
            (_, call) => self.tables.frame_label(self.tree.calls[call as usize].frame),
        }
    }

    fn reference(&self, branch: u32) -> String {
        match self.rows[branch as usize] {
            (_, TOP) => "process".into(),
            (_, WITHOUT_STACK) => "?".into(),
            (_, call) => self.tables.frame_place(self.tree.calls[call as usize].frame),
        }
    }

    fn leaf_kind(&self, leaf: &Leaf) -> u32 {
        leaf.branch
    }

    fn leaf_name(&self, branch: u32) -> String {
        let (_, call) = self.rows[branch as usize];
        if call == WITHOUT_STACK {
            return NO_STACK_LABEL.into();
        }
        let callers =
            std::iter::successors(Some(call), |call| Some(self.tree.calls[*call as usize].caller))
                .take_while(|call| *call != TOP);
        let frames: Vec<u32> = callers
            .take(Tables::WRAPPERS_MAX + 1)
            .map(|call| self.tree.calls[call as usize].frame)
            .collect();
        called(self.tables, &frames)
    }

    fn ids_end(&self) -> u64 {
        let processes = self
            .rows
            .last()
            .map_or(0, |(process, _)| process + 1)
            .max(self.tables.processes.len() as u32);
        branch_id(self.number(processes, 0))
    }
}
