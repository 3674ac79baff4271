//! Space: ten thousand arenas of twenty blocks, or fifty thousand of three tiny ones, nine in ten
//! dropped at random; each heap and order in a process of its own.

use super::peers::{Blocks, Bumpalo, Elastic, Peer, Talloc};
use super::workload::{Random, sizes};
use anyhow::{Context, Result, bail};
use heaplab_elastic::{Growth, Reclaim};
use heaplab_system::{glibc::Glibc, jemalloc::Jemalloc, mimalloc::Mimalloc};
use serde::{Deserialize, Serialize};
use std::process::Command;

const ARENAS: usize = 10_000;
const BLOCKS: usize = 20;
/// With the histogram's sizes up to this one the requests make the 21.2 MB for which the bounds are
/// stated.
const WORDS_MAX: usize = 116;

/// Heaps in the table's order: `elastic` knows the size of its arenas (`Growth::SMALL`),
/// [`LEARNED`] does not.
pub const HEAPS: [&str; 7] =
    ["elastic", LEARNED, "glibc", "jemalloc", "mimalloc", "bumpalo", "talloc"];
/// Elastic arenas with default options.
pub const LEARNED: &str = "elastic by default";
/// Orders of filling. An arena is born with the request for its first block; in the last order all
/// arenas are born first and then filled one after another.
pub const ORDERS: [&str; 3] = ["one after another", "round-robin", "all born first"];
/// A prefix of the order: fifty thousand arenas of three blocks of 16 to 128 bytes.
pub const TINY: &str = "tiny ";
const TINY_ARENAS: usize = 50_000;
const TINY_BLOCKS: usize = 3;

/// The requests of a measurement.
struct Asked<'a> {
    arenas: usize,
    blocks: usize,
    /// By block, arena by arena.
    sizes: Vec<u32>,
    order: &'a str,
}

impl Asked<'_> {
    fn of(order: &str, seed: u64) -> Result<Asked<'_>> {
        let Some(order) = order.strip_prefix(TINY) else {
            let sizes = sizes(ARENAS * BLOCKS, WORDS_MAX, seed)?;
            return Ok(Asked { arenas: ARENAS, blocks: BLOCKS, sizes, order });
        };
        let mut random = Random(seed);
        let sizes = (0..TINY_ARENAS * TINY_BLOCKS).map(|_| 16 + 8 * random.below(15) as u32);
        Ok(Asked { arenas: TINY_ARENAS, blocks: TINY_BLOCKS, sizes: sizes.collect(), order })
    }
}

/// The figures of one process. Bytes are RssAnon above the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The heap.
    pub heap: String,
    /// The order.
    pub order: String,
    /// Requested bytes.
    pub requested_bytes: usize,
    /// Requested bytes live after the drop.
    pub live_bytes: usize,
    /// Resident when all is filled.
    pub filled_bytes: usize,
    /// Resident bytes after nine in ten arenas are dropped.
    pub dropped_bytes: usize,
    /// And after a trim, by the heap's own call for it.
    pub trimmed_bytes: usize,
    /// Mappings of the process then, above the start.
    pub mappings: i64,
    /// Resident bytes after everything is dropped and trimmed.
    pub empty_bytes: usize,
    /// Committed bytes at that time by the heap's own account, if it tells.
    pub committed_bytes: Option<usize>,
    /// CPU time of filling, ns an allocation.
    pub fill_ns: f64,
}

/// Runs one heap and order in a fresh process; `None`: the heap is not installed.
pub fn fresh(heap: &str, order: &str, seed: u64) -> Result<Option<Measured>> {
    in_child(&format!("{heap},{order},{seed}"))
}

/// Runs one measurement in a fresh process.
pub fn in_child<T: serde::de::DeserializeOwned>(spec: &str) -> Result<T> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["elastic", "--child", spec]);
    if spec.contains(super::time::MIMALLOC_SMALL_PAGES) {
        // mimalloc reads the variable when its library is loaded.
        command.env("MIMALLOC_ALLOW_THP", "0");
    }
    let output = command.output().context("cannot start this program again")?;
    if !output.status.success() {
        bail!("{spec}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The other side of [`fresh`].
pub fn child(spec: &str) -> Result<()> {
    let mut fields = spec.splitn(3, ',');
    let (Some(heap), Some(order), Some(seed)) = (fields.next(), fields.next(), fields.next())
    else {
        bail!("{spec:?}")
    };
    if heap == "replay" {
        println!("{}", serde_json::to_string(&super::time::replay_child(order, seed)?)?);
        return Ok(());
    }
    if heap == super::time::BY_TURNS {
        println!("{}", serde_json::to_string(&super::time::by_turns_child(order, seed)?)?);
        return Ok(());
    }
    if heap == super::threads::WORKER {
        return super::threads::worker_child(order, seed);
    }
    if heap == super::settings::CHILD {
        println!("{}", serde_json::to_string(&super::settings::child(order)?)?);
        return Ok(());
    }
    let seed = seed.parse()?;
    if let Some(options) = super::settings::granule_of(heap) {
        let measured = Some(measure(Elastic::with(Growth::SMALL, options), heap, order, seed)?);
        println!("{}", serde_json::to_string(&measured)?);
        return Ok(());
    }
    let measured = match heap {
        "elastic" | LEARNED => {
            let growth = if heap == LEARNED { Growth::LEARNED } else { Growth::SMALL };
            let elastic = Elastic::new(growth, Reclaim::default());
            let space = elastic.space.clone();
            Some(measure(elastic, heap, order, seed)?).map(|measured| Measured {
                committed_bytes: Some(space.committed_bytes()),
                ..measured
            })
        }
        "glibc" => Some(measure(Blocks(Glibc), heap, order, seed)?),
        "jemalloc" => Some(measure(Blocks(Jemalloc), heap, order, seed)?),
        "mimalloc" => Some(measure(Blocks(Mimalloc), heap, order, seed)?),
        "bumpalo" => Some(measure(Bumpalo::default(), heap, order, seed)?),
        "talloc" => Talloc::find().map(|talloc| measure(talloc, heap, order, seed)).transpose()?,
        other => bail!("no heap {other:?}"),
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

fn measure(mut peer: impl Peer, heap: &str, order: &str, seed: u64) -> Result<Measured> {
    let Asked { arenas, blocks: arena_blocks, sizes, order: fill } = Asked::of(order, seed)?;
    let drops = Random(seed ^ 1).order(arenas);
    let mut random = Random(seed);
    random.next();
    super::peers::trim_system();
    let (start_bytes, start_mappings) = (resident_bytes()?, mappings()?);
    let cpu_ns = super::time::cpu_ns();
    // A program that frees blocks one by one must keep their addresses.
    let mut blocks: Vec<*mut u8> =
        Vec::with_capacity(if has_regions(&peer) { 0 } else { sizes.len() });
    blocks.resize(blocks.capacity(), std::ptr::null_mut());
    peer.expect(arenas);
    let (one_after_another, born_first) = (fill != ORDERS[1], fill == ORDERS[2]);
    if born_first {
        (0..arenas).for_each(|arena| peer.begin(arena));
    }
    let (outer, inner) =
        if one_after_another { (arenas, arena_blocks) } else { (arena_blocks, arenas) };
    for (first, second) in
        (0..outer).flat_map(|first| (0..inner).map(move |second| (first, second)))
    {
        let (arena, nth) = if one_after_another { (first, second) } else { (second, first) };
        if nth == 0 && !born_first {
            peer.begin(arena);
        }
        let at = arena * arena_blocks + nth;
        let block = peer.allocate(arena, sizes[at] as usize);
        // SAFETY: the block has this size and was just handed out.
        unsafe { block.write_bytes(at as u8 | 1, sizes[at] as usize) };
        if let Some(slot) = blocks.get_mut(at) {
            *slot = block;
        }
    }
    let fill_ns = (super::time::cpu_ns() - cpu_ns) as f64 / sizes.len() as f64;
    let above = |bytes: usize| bytes.saturating_sub(start_bytes);
    let filled_bytes = above(resident_bytes()?);
    let (dropped, kept) = drops.split_at(arenas / 10 * 9);
    end(&mut peer, dropped, arena_blocks, &sizes, &blocks);
    let dropped_bytes = above(resident_bytes()?);
    peer.trim();
    let (trimmed_bytes, mappings) = (above(resident_bytes()?), mappings()? - start_mappings);
    end(&mut peer, kept, arena_blocks, &sizes, &blocks);
    peer.trim();
    let of = |arenas: &[u32]| -> usize {
        arenas
            .iter()
            .flat_map(|arena| &sizes[*arena as usize * arena_blocks..][..arena_blocks])
            .map(|size| *size as usize)
            .sum()
    };
    Ok(Measured {
        heap: heap.into(),
        order: order.into(),
        requested_bytes: sizes.iter().map(|size| *size as usize).sum(),
        live_bytes: of(kept),
        filled_bytes,
        dropped_bytes,
        trimmed_bytes,
        mappings,
        empty_bytes: above(resident_bytes()?),
        committed_bytes: None,
        fill_ns,
    })
}

fn has_regions<P: Peer>(_: &P) -> bool {
    P::REGIONS
}

fn end<P: Peer>(
    peer: &mut P,
    arenas: &[u32],
    arena_blocks: usize,
    sizes: &[u32],
    blocks: &[*mut u8],
) {
    for arena in arenas.iter().map(|arena| *arena as usize) {
        if !P::REGIONS {
            for at in arena * arena_blocks..(arena + 1) * arena_blocks {
                // SAFETY: every block of the arena is live until here.
                unsafe { peer.free(arena, blocks[at], sizes[at] as usize) };
            }
        }
        peer.end(arena);
    }
}

/// Anonymous resident bytes of this process.
pub fn resident_bytes() -> Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .context("RssAnon in /proc/self/status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<usize>()? << 10)
}

fn mappings() -> Result<i64> {
    Ok(std::fs::read_to_string("/proc/self/maps")?.lines().count() as i64)
}
