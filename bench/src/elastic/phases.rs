//! One arena whose program asks for other sizes in each phase: what it holds when blocks that were
//! given back have to serve blocks of other sizes.

use super::peers::words;
use anyhow::Result;
use heaplab_elastic::{Growth, Options, Space};

const PHASES: usize = 12;
/// What lives in a phase.
const LIVE_BYTES: usize = 1_000_000;

/// What lives in a phase, and what is committed behind the last one.
pub fn committed_bytes() -> Result<(usize, usize)> {
    let space = Space::new(Options::default())?;
    let arena = space.arena(Growth::default())?;
    for phase in 0..PHASES {
        let bytes = 24 + 40 * phase;
        let blocks = (0..LIVE_BYTES / bytes).map(|_| arena.allocate(words(bytes)));
        for block in blocks.collect::<Result<Vec<_>, _>>()? {
            // SAFETY: it came from this arena with this layout, and is given back once.
            unsafe { arena.deallocate(block, words(bytes)) };
        }
    }
    Ok((LIVE_BYTES, space.committed_bytes()))
}
