//! A recording's live blocks as a heap snapshot (`.heapsnapshot`), for Chrome DevTools' Memory
//! panel and `heaplab snapshot`.
//!
//! The other formats have sums; this one has single blocks. Each live block is a node of its
//! requested size. The innermost frame of its call stack holds the block, the frame's caller holds
//! the frame, and so on out to the process and the root. Every node has one retainer: the retained
//! size of a frame is the live bytes allocated beneath it, and the root's is the recording's live
//! bytes at the moment. Frames weigh nothing. DevTools' Summary leaves out nodes without weight, so
//! it has a row for each function that allocated.
//!
//! The snapshot crate's `Generator` writes the file, and walks this heap like any other; source:
//! its `Embedder`. Particular here:
//!
//! - *Names.* A block is named after the first function of its stack that is not the allocation
//!   itself (`operator new`, Rust's `RawVec`). A name that begins with `<` and has a space, like
//!   Rust's methods of traits, gets the prefix `fn `: otherwise DevTools takes it for an element of
//!   a page and cuts it.
//! - *Ids.* A block's is its number in the recording, a frame's its number in the recording's call
//!   tree: two files of one recording can be compared, and equal ids mean equal blocks. If those
//!   numbers do not fit into 32 bits, nodes are numbered in their order instead
//!   ([`Written::ids_last`] is then false).
//! - *4 GiB.* The format's readers keep 32 bits of a node's size. A larger block becomes several
//!   nodes side by side.
//!
//! The same generator walks two other heaps: a recorded JVM's metaspace ([`MetaspaceSnapshot`]),
//! and any heap that ran the workload and knows its own structure ([`WalkedHeap`]).
//!
//! Memory: 24 bytes a block while the file is written (48 while the blocks find their frames) and
//! less than 1 more for the generator, besides the distinct stacks; before that the profile's own
//! table of live objects. With a million blocks, all live, the command peaked at 99 MB (a report of
//! them at 74), and the file has 36 bytes a block (`/usr/bin/time -v heaplab export ...`).

mod calls;
mod forest;
mod heap_at_moment;
mod metaspace;
mod walked_heap;

pub use heap_at_moment::HeapAtMoment;
pub use metaspace::MetaspaceSnapshot;
pub use walked_heap::WalkedHeap;

use crate::{About, ExportError, LiveBlocks};
use calls::Calls;
use forest::{Branches, Forest};
use heaplab_snapshot::generate::{GeneratorOptions, Profile, generate};
use heaplab_trace::tables::Tables;
use std::io::Write;

/// The input of a heap snapshot.
#[derive(Debug)]
pub struct HeapSnapshot<'a> {
    /// Stacks, frames, modules, processes and threads.
    pub tables: &'a Tables,
    /// The live blocks.
    pub blocks: LiveBlocks,
    /// Objects born in the whole recording, for lasting ids.
    pub objects_born: u64,
    /// The moment, in words.
    pub moment: &'a str,
    /// The recording's subject.
    pub about: &'a About,
}

/// The result of writing.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Times and counts of the generator's two phases. Its nodes are the root, the branches, and
    /// the blocks.
    pub profile: Profile,
    /// Whether ids are equal in every file of this recording, which makes two files comparable.
    pub ids_last: bool,
}

impl HeapSnapshot<'_> {
    /// Writes the file.
    ///
    /// # Errors
    /// `out` fails, or the format cannot number all nodes.
    pub fn write(self, out: &mut impl Write) -> Result<Written, ExportError> {
        let root_name = format!("{} at {}", self.about.program, self.moment);
        let (calls, leaves) = Calls::of(self.tables, self.blocks.blocks, &self.about.program);
        write_forest(Forest::new(calls, leaves, root_name, self.objects_born), out)
    }
}

fn write_forest(
    mut forest: Forest<impl Branches>,
    out: &mut impl Write,
) -> Result<Written, ExportError> {
    let (_, profile) = generate(&mut forest, out, GeneratorOptions::default())?;
    Ok(Written { profile, ids_last: forest.ids_last() })
}
