//! Large blocks of one arena, each with a chunk of its own, freed one by one. The cost must neither
//! grow with their number nor depend on their order, except for the caches: each block's links lie
//! in a page of their own. A walked list of chunks costs some 30 times as much for 16 times as many
//! blocks.

use super::time::{cpu_ns, median};
use super::workload::Random;
use anyhow::{Result, bail};
use heaplab_elastic::{Growth, Options, Reclaim, Space};
use std::alloc::Layout;

/// Larger than one populating call, so that only the page with a block's links is resident.
const BLOCK_BYTES: usize = 4 << 20;

/// The orders of freeing.
pub const ORDERS: [&str; 3] = ["newest first", "oldest first", "at random"];

/// CPU ns to free one of `count` blocks, in each order: the median of some rounds, each with a new
/// space.
pub fn give_back_ns(count: usize, repetitions: usize) -> Result<[f64; 3]> {
    let layout = Layout::from_size_align(BLOCK_BYTES, 8)?;
    let mut found: [Vec<f64>; 3] = Default::default();
    for repetition in 0..repetitions {
        for (order, found) in ORDERS.iter().zip(&mut found) {
            let space = Space::new(Options { reclaim: Reclaim::AtTrim, ..Options::default() })?;
            let arena = space.arena(Growth::STANDARD)?;
            let mut blocks =
                (0..count).map(|_| arena.allocate(layout)).collect::<Result<Vec<_>, _>>()?;
            match *order {
                "newest first" => blocks.reverse(),
                "at random" => {
                    blocks = Random(repetition as u64)
                        .order(count)
                        .into_iter()
                        .map(|nth| blocks[nth as usize])
                        .collect()
                }
                _ => {}
            }
            let start = cpu_ns();
            for block in blocks {
                // SAFETY: each block is live and is freed once.
                unsafe { arena.deallocate(block, layout) };
            }
            found.push((cpu_ns() - start) as f64 / count as f64);
            if space.idle_bytes() < count * BLOCK_BYTES {
                bail!("{count} blocks were given back, and {} bytes are idle", space.idle_bytes());
            }
        }
    }
    Ok(found.map(median))
}
