//! Stacks in the form of exports: lists of frames with weights, each list once.
//!
//! Two rows of the stack table can read the same (an imported trace, or two mappings of one
//! library). Viewers merge or refuse such rows, so they are merged here, by the text of their
//! frames.

use crate::{Export, ExportError, InUseAt};
use heaplab_profile::Amount;
use heaplab_trace::{
    NO_STACK, StackId,
    tables::{Frame, Tables},
};
use std::collections::{BTreeMap, HashMap};

/// Stands for bytes without a stack.
pub const NO_STACK_LABEL: &str = "(no stack recorded)";

/// A stack with its allocated bytes and its bytes in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Weighted {
    pub stack: StackId,
    pub requested: Amount,
    pub in_use: Amount,
}

/// The stacks of the profile with their weights, in order of stack, without those of weight 0.
pub fn weighted(export: &Export<'_>) -> Result<Vec<Weighted>, ExportError> {
    let same = SameStacks::of(export.tables);
    let mut rows: BTreeMap<StackId, Weighted> = BTreeMap::new();
    for row in &export.profile.stacks {
        let in_use = match export.moment {
            InUseAt::Peak => row.at_peak,
            InUseAt::End => row.at_end,
            InUseAt::Asked(_) => Amount::default(),
        };
        let weighted = rows.entry(same.first(row.stack)).or_default();
        add(&mut weighted.requested, row.requested);
        add(&mut weighted.in_use, in_use);
    }
    if let InUseAt::Asked(number) = export.moment {
        let moment =
            export.profile.moments.get(number).ok_or(ExportError::MomentMissing(number))?;
        for row in &moment.stacks {
            add(&mut rows.entry(same.first(row.stack)).or_default().in_use, row.live);
        }
    }
    // Requests of no bytes are requests.
    rows.retain(|_, row| row.requested.objects + row.in_use.objects > 0);
    Ok(rows.into_iter().map(|(stack, row)| Weighted { stack, ..row }).collect())
}

pub fn add(sum: &mut Amount, more: Amount) {
    sum.objects = sum.objects.saturating_add(more.objects);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.usable_bytes = sum.usable_bytes.saturating_add(more.usable_bytes);
}

/// For each stack the first stack with the same text.
#[derive(Debug)]
pub struct SameStacks(Vec<StackId>);

impl SameStacks {
    /// Compares all stacks of `tables`, frame by frame.
    pub fn of(tables: &Tables) -> SameStacks {
        let mut seen: HashMap<(StackId, Vec<&Frame>), StackId> = HashMap::new();
        let mut first: Vec<StackId> = Vec::with_capacity(tables.stacks.len());
        for (row, node) in tables.stacks.iter().enumerate() {
            let row = row as StackId;
            // Parents are smaller rows; a damaged one counts as the root, as in
            // `Tables::frames_of`.
            let parent = if node.parent < row { first[node.parent as usize] } else { NO_STACK };
            let frames = functions(tables, node.frame)
                .filter_map(|frame| tables.frames.get(frame as usize))
                .collect();
            first.push(if row == NO_STACK {
                NO_STACK
            } else {
                *seen.entry((parent, frames)).or_insert(row)
            });
        }
        SameStacks(first)
    }

    /// The first stack with the same text as `stack`.
    pub fn first(&self, stack: StackId) -> StackId {
        self.0.get(stack as usize).copied().unwrap_or(NO_STACK)
    }
}

/// The return addresses of a stack, innermost first, each as the row of its innermost frame.
pub fn return_addresses(tables: &Tables, stack: StackId) -> impl Iterator<Item = u32> + '_ {
    let mut node = stack;
    std::iter::from_fn(move || {
        let here = tables.stacks.get(node as usize).filter(|_| node != NO_STACK)?;
        node = if here.parent < node { here.parent } else { NO_STACK };
        Some(here.frame)
    })
}

/// The functions at one return address, innermost first.
pub fn functions(tables: &Tables, frame: u32) -> impl Iterator<Item = u32> + '_ {
    std::iter::successors(Some(frame), |frame| {
        tables.frames.get(*frame as usize)?.inlined_into.filter(|outer| outer > frame)
    })
}

/// The label of each frame of `stack`, innermost first; never empty.
pub fn labels(tables: &Tables, stack: StackId) -> Vec<String> {
    let mut labels: Vec<String> =
        tables.frames_of(stack).map(|frame| tables.frame_label(frame)).collect();
    if labels.is_empty() {
        labels.push(NO_STACK_LABEL.to_owned());
    }
    labels
}
