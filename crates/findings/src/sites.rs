//! Which stacks are one site: those that agree in their innermost frames. What lies further out tells who called it, and
//! a fix is made where the memory is asked for.

use crate::StackShare;
use hashbrown::HashMap;
use heaplab_trace::{StackId, tables::Tables};

/// A number for the innermost frames of a stack.
pub(crate) type Site = u32;

/// Tells stacks' sites.
#[derive(Debug)]
pub(crate) struct Sites<'a> {
    tables: &'a Tables,
    frames: usize,
    known: HashMap<Vec<u32>, Site>,
}

impl<'a> Sites<'a> {
    pub(crate) fn new(tables: &'a Tables, frames: usize) -> Self {
        Sites { tables, frames, known: HashMap::new() }
    }

    /// The site of a stack.
    pub(crate) fn of(&mut self, stack: StackId) -> Site {
        let innermost = physical_frames(self.tables, stack).take(self.frames).collect();
        let next = self.known.len() as Site;
        *self.known.entry(innermost).or_insert(next)
    }
}

/// The frame that called the allocator; `None` without a stack.
pub(crate) fn innermost(tables: &Tables, stack: StackId) -> Option<u32> {
    physical_frames(tables, stack).next()
}

fn physical_frames(tables: &Tables, stack: StackId) -> impl Iterator<Item = u32> + '_ {
    let mut node = stack;
    std::iter::from_fn(move || {
        let here = tables.stacks.get(node as usize).filter(|_| node != 0)?;
        node = if here.parent < node { here.parent } else { 0 };
        Some(here.frame)
    })
}

/// The shares, the largest first, at most `most` of them, and how many there were.
pub(crate) fn largest(mut shares: Vec<StackShare>, most: usize) -> (Vec<StackShare>, u64) {
    shares.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(b.count.cmp(&a.count)).then(a.stack.cmp(&b.stack)));
    let all = shares.len() as u64;
    shares.truncate(most);
    (shares, all)
}
