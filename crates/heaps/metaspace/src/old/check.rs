//! The invariants of a sound metaspace, as in HotSpot's `verify` methods: counts cheaply,
//! everything else by walking.

use super::arena::Arena;
use super::chunk::Chunk;
use super::facts::WORD;
use super::metaspace::Metaspace11;
use super::node::Node;
use super::pool::Pool;
use super::strategy::ChunkKind;
use heaplab_heap::CheckError;
use std::collections::HashSet;

fn broken(place: String, expected: impl ToString, found: impl ToString) -> CheckError {
    CheckError { place, expected: expected.to_string(), found: found.to_string() }
}

fn same(place: impl Fn() -> String, expected: usize, found: usize) -> Result<(), CheckError> {
    if expected == found { Ok(()) } else { Err(broken(place(), expected, found)) }
}

impl Metaspace11 {
    /// Counts that must agree, in time proportional to the number of nodes.
    pub fn check(&self) -> Result<(), CheckError> {
        for pool in &self.pools {
            let place = || format!("{} space, words of free chunks", pool.space.name());
            same(
                place,
                ChunkKind::ALL.iter().map(|kind| pool.free_words_of(*kind)).sum(),
                pool.free_words,
            )?;
            let committed = pool.mapped().map(|node| node.committed_words).sum();
            same(
                || format!("{} space, committed words", pool.space.name()),
                committed,
                pool.committed_words,
            )?;
            for node in pool.mapped() {
                if node.top > node.committed_end() || node.committed_words > node.reserved_words {
                    let found =
                        format!("top at {:#x}, committed to {:#x}", node.top, node.committed_end());
                    return Err(broken(
                        format!("node at {:#x}", node.base),
                        "top <= committed <= reserved",
                        found,
                    ));
                }
            }
        }
        Ok(())
    }

    /// Every node's chunks against its map, every list against the chunks, every arena's counts.
    pub fn check_deep(&self) -> Result<(), CheckError> {
        self.check()?;
        for pool in &self.pools {
            let listed = listed_chunks(pool)?;
            let owned: HashSet<usize> = self
                .living()
                .filter(|arena| arena.space == pool.space)
                .flat_map(Arena::chunks)
                .map(Chunk::address)
                .collect();
            let mut free_words = 0;
            for node in pool.mapped() {
                free_words += check_node(pool, node, &listed, &owned)?;
            }
            same(
                || format!("{} space, words of free chunks by address", pool.space.name()),
                pool.free_words,
                free_words,
            )?;
        }
        self.living().try_for_each(check_arena)
    }
}

/// Addresses of the chunks on free lists.
fn listed_chunks(pool: &Pool) -> Result<HashSet<usize>, CheckError> {
    let mut listed = HashSet::new();
    for (list, kind) in pool.free.iter().zip(ChunkKind::FIXED) {
        let place = || format!("{} space, list of free {} chunks", pool.space.name(), kind.name());
        for piece in list.iter() {
            if Chunk(piece).kind() != kind || !listed.insert(piece.address()) {
                return Err(broken(
                    place(),
                    "each chunk of that kind once",
                    format!("{:#x}", piece.address()),
                ));
            }
        }
    }
    let fixed = listed.len();
    same(
        || format!("{} space, number of free chunks", pool.space.name()),
        pool.free.iter().map(|list| list.count()).sum(),
        fixed,
    )?;
    let walked = pool.humongous.inspect(|piece| {
        listed.insert(piece.address());
    });
    walked.map_err(|found| {
        broken(
            format!("{} space, tree of free humongous chunks", pool.space.name()),
            "a sorted tree",
            found,
        )
    })?;
    Ok(listed)
}

/// Walks a node; returns the words of its free chunks.
fn check_node(
    pool: &Pool,
    node: &Node,
    listed: &HashSet<usize>,
    owned: &HashSet<usize>,
) -> Result<usize, CheckError> {
    let (mut at, mut in_use, mut free_words) = (node.base, 0, 0);
    while at < node.top {
        let place =
            || format!("chunk at {at:#x} of the {} node at {:#x}", pool.space.name(), node.base);
        if !node.map.starts_at(at) {
            return Err(broken(place(), "a start bit", "none"));
        }
        let chunk = node.chunk_at(at);
        let words = chunk.words();
        if !chunk.is_sound() || chunk.kind() != pool.space.kind_of(words) || chunk.end() > node.top
        {
            return Err(broken(
                place(),
                "a sound header",
                format!("{words} words, {}", chunk.kind().name()),
            ));
        }
        if !at.is_multiple_of(pool.space.chunk_alignment_bytes(words)) {
            return Err(broken(
                place(),
                format!("alignment to {}", pool.space.chunk_alignment_bytes(words)),
                at,
            ));
        }
        let smallest = pool.space.words_of(ChunkKind::Specialized).unwrap_or(words);
        if words > smallest && node.map.any_start(at + smallest * WORD, words - smallest) {
            return Err(broken(place(), "no chunk within it", "a start bit"));
        }
        let mapped = if chunk.is_free() {
            !node.map.any_in_use(at, words)
        } else {
            node.map.all_in_use(at, words)
        };
        let known =
            (listed.contains(&at), owned.contains(&at)) == (chunk.is_free(), !chunk.is_free());
        if !mapped || !known || !chunk.is_free() && chunk.uses() == 0 {
            let found = format!(
                "free {}, map agrees {mapped}, listed or owned {known}, uses {}",
                chunk.is_free(),
                chunk.uses()
            );
            return Err(broken(
                place(),
                "on a free list, or an arena's, as its map and header say",
                found,
            ));
        }
        if chunk.is_free() {
            free_words += words;
        } else {
            in_use += 1;
        }
        at = chunk.end();
    }
    same(|| format!("chunks in use of the node at {:#x}", node.base), in_use, node.chunks_in_use)?;
    Ok(free_words)
}

fn check_arena(arena: &Arena) -> Result<(), CheckError> {
    let place = |what: &str| {
        format!("{} arena of a {} loader, {what}", arena.space.name(), arena.loader.name())
    };
    let (mut capacity, mut used, mut counts) = (0, 0, [0u32; 4]);
    let mut ranges = Vec::new();
    for chunk in arena.chunks() {
        capacity += chunk.words();
        used += chunk.used_words();
        counts[chunk.kind() as usize] += 1;
        ranges.push(chunk.address()..chunk.top());
        if arena.current() != Some(chunk)
            && chunk.kind() != ChunkKind::Humongous
            && chunk.free_words() >= super::facts::BLOCK_WORDS_MIN
        {
            return Err(broken(
                place("a retired chunk"),
                "nothing left that is large enough for a block",
                chunk.free_words(),
            ));
        }
    }
    same(|| place("capacity in words"), capacity, arena.capacity_words)?;
    same(|| place("used words"), used, arena.used_words)?;
    if counts != arena.chunks_by_kind {
        return Err(broken(
            place("chunks by kind"),
            format!("{counts:?}"),
            format!("{:?}", arena.chunks_by_kind),
        ));
    }
    let Some(blocks) = arena.blocks() else { return Ok(()) };
    let mut free: Vec<(usize, usize)> = Vec::new();
    blocks
        .inspect(|address, words| free.push((address, words)))
        .map_err(|found| broken(place("free blocks"), "counts that add up", found))?;
    free.sort_unstable();
    let overlap = free.windows(2).any(|pair| pair[0].0 + pair[0].1 * WORD > pair[1].0);
    let inside = free.iter().all(|(address, words)| {
        ranges.iter().any(|range| range.contains(address) && address + words * WORD <= range.end)
    });
    if overlap || !inside {
        return Err(broken(
            place("free blocks"),
            "within its chunks, apart from one another",
            format!("overlap {overlap}, inside {inside}"),
        ));
    }
    Ok(())
}
