//! One arena whose program uses other sizes in each phase: its memory when freed blocks must serve
//! blocks of other sizes.

use super::peers::words;
use anyhow::Result;
use heaplab_elastic::{Growth, Options, Space};

const PHASES: usize = 12;
/// Live bytes of a phase.
const LIVE_BYTES: usize = 1_000_000;

/// Bytes live in a phase, and bytes committed after the last one.
pub fn committed_bytes() -> Result<(usize, usize)> {
    let space = Space::new(Options::default())?;
    let arena = space.arena(Growth::default())?;
    for phase in 0..PHASES {
        let bytes = 24 + 40 * phase;
        let blocks = (0..LIVE_BYTES / bytes).map(|_| arena.allocate(words(bytes)));
        for block in blocks.collect::<Result<Vec<_>, _>>()? {
            // SAFETY: the block came from this arena with this layout and is freed once.
            unsafe { arena.deallocate(block, words(bytes)) };
        }
    }
    Ok((LIVE_BYTES, space.committed_bytes()))
}
