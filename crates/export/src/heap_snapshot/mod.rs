//! A recording's live blocks as a heap snapshot (`.heapsnapshot`), for Chrome DevTools' Memory
//! panel and `heaplab snapshot`.
//!
//! What the other formats sum up is here one by one: each live block is a node of the size that was
//! asked for, held by the innermost frame of its call stack, which is held by its caller, and so on
//! out to the process and the root. Every node has one retainer, so that the retained size of a
//! frame is what was allocated beneath it and is still live, and the root's is the recording's live
//! bytes at the moment. Frames weigh nothing, and DevTools' Summary, which leaves out what weighs
//! nothing, has a row for each function that allocated.
//!
//! The file comes from the snapshot crate's `Generator`, which walks this heap as it walks any
//! other; source: its `Embedder`. What is particular here:
//!
//! - *Names.* A block is called as the first function of its stack that is not the allocation
//!   itself (`operator new`, Rust's `RawVec`), so that it says something. A name that begins with
//!   `<` and has a space, as Rust's methods of traits do, is led by `fn `: DevTools takes it for an
//!   element of a page otherwise and cuts it.
//! - *Ids.* A block's is its number in the recording, a frame's its number in the recording's call
//!   tree: two files of one recording can be compared, and equal ids mean equal blocks. Where those
//!   numbers do not fit into 32 bits, nodes are numbered in their order instead
//!   ([`Written::ids_last`] says so).
//! - *4 GiB.* The format's readers keep 32 bits of a node's size. A larger block becomes several
//!   nodes side by side.
//!
//! Two other heaps are walked by the same generator: a recorded JVM's metaspace
//! ([`MetaspaceSnapshot`]), and any heap that ran the workload and knows its own structure
//! ([`StandingHeap`]).
//!
//! Memory: 24 bytes a block while the file is written (48 while the blocks find their frames) and
//! less than 1 more for the generator, besides the distinct stacks; before that the profile's own
//! table of what is live. With a million blocks, all live, the command peaked at 99 MB (a report of
//! them at 74), and the file has 36 bytes a block (`/usr/bin/time -v heaplab export ...`).

mod calls;
mod forest;
mod metaspace;
mod standing;

pub use metaspace::MetaspaceSnapshot;
pub use standing::StandingHeap;

use crate::{About, ExportError, LiveBlocks};
use calls::Calls;
use forest::{Branches, Forest};
use heaplab_snapshot::generate::{Options, Profile, generate};
use heaplab_trace::tables::Tables;
use std::io::Write;

/// What a heap snapshot is made from.
#[derive(Debug)]
pub struct HeapSnapshot<'a> {
    /// Stacks, frames, modules, processes and threads.
    pub tables: &'a Tables,
    /// What is live.
    pub blocks: LiveBlocks,
    /// Objects that the recording knows over its whole length, for ids that last.
    pub objects_born: u64,
    /// When that is, in words.
    pub moment: &'a str,
    /// What the recording is of.
    pub about: &'a About,
}

/// What was written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Times and counts of the generator's two phases. Its nodes are the root, what leads to the
    /// blocks, and these.
    pub profile: Profile,
    /// Whether ids are the same in every file of this recording, so that two can be compared.
    pub ids_last: bool,
}

impl HeapSnapshot<'_> {
    /// Writes the file.
    ///
    /// # Errors
    /// `out` fails, or there are more nodes than the format can number.
    pub fn write(self, out: &mut impl Write) -> Result<Written, ExportError> {
        let root_name = format!("{} at {}", self.about.program, self.moment);
        let (calls, leaves) = Calls::of(self.tables, self.blocks.blocks, &self.about.program);
        let ids_last = calls.ids_last(&leaves, self.objects_born);
        write_forest(Forest::new(calls, leaves, root_name, ids_last), out)
    }
}

fn write_forest(
    mut forest: Forest<impl Branches>,
    out: &mut impl Write,
) -> Result<Written, ExportError> {
    let (_, profile) = generate(&mut forest, out, Options::default())?;
    Ok(Written { profile, ids_last: forest.ids_last() })
}
