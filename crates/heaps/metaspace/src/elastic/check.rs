//! The invariants of the heap: counts that must agree, and blocks that must not overlap.

use super::facts::WORD_BYTES;
use super::heap::{CLASS, ElasticMetaspace};
use super::space::Space;
use heaplab_heap::CheckError;
use std::collections::HashSet;

fn expect(
    holds: bool,
    place: impl Into<String>,
    expected: impl Into<String>,
    found: impl ToString,
) -> Result<(), CheckError> {
    if holds {
        Ok(())
    } else {
        Err(CheckError { place: place.into(), expected: expected.into(), found: found.to_string() })
    }
}

impl ElasticMetaspace {
    /// Checks the counts, in constant time.
    pub(super) fn check_counts(&self) -> Result<(), CheckError> {
        let (committed, charged) =
            (self.committed_words() * WORD_BYTES, self.limit().committed_bytes());
        expect(
            committed == charged,
            "commit limit",
            format!("the {committed} bytes of the nodes' masks"),
            charged,
        )?;
        expect(
            self.used_words() * WORD_BYTES <= committed,
            "used words",
            "at most what is committed",
            self.used_words(),
        )
    }

    /// Checks every invariant.
    pub(super) fn check_everything(&self) -> Result<(), CheckError> {
        self.check_counts()?;
        let mut seen = 0;
        for (at, space) in self.spaces.iter().enumerate() {
            seen += self.check_space(at, space)?;
        }
        let live = self.arenas.iter().flatten().count();
        expect(seen == live, "arenas", format!("all {live} of them in a space"), seen)
    }

    /// Checks the chunks of a space, its arenas, and that every chunk in use has an owner. Returns
    /// the number of its arenas.
    fn check_space(&self, at: usize, space: &Space) -> Result<usize, CheckError> {
        space.chunks().check_deep().map_err(|broken| CheckError {
            place: broken.place,
            expected: broken.expected,
            found: broken.found,
        })?;
        for (nth, node) in space.nodes().iter().enumerate() {
            let (mask, memory) = (node.mask().committed_bytes(), node.memory().committed_bytes());
            expect(
                mask == memory,
                format!("node {nth}"),
                format!("{mask} bytes committed, as its mask says"),
                memory,
            )?;
        }
        self.check_committed(space)?;
        let mut owned = HashSet::new();
        if at == CLASS {
            owned.extend(self.guard);
        }
        let (mut arenas, mut used) = (0, 0);
        for arena in self.arenas.iter().flatten() {
            if (arena.plan().class && self.spaces.len() > CLASS) != (at == CLASS) {
                continue;
            }
            arenas += 1;
            used += arena.used_words(space);
            let mut ranges = Vec::new();
            for chunk in arena.each_chunk(space) {
                expect(owned.insert(chunk), format!("{chunk:?}"), "one owner", "two")?;
                expect(
                    !space.chunks().is_free(chunk),
                    format!("{chunk:?}"),
                    "in use by its arena",
                    "free",
                )?;
                let start = space.address(chunk).as_ptr() as usize;
                ranges.push(start..start + space.chunks().used_bytes(chunk));
            }
            expect(
                ranges.len() == arena.chunks(),
                "an arena",
                format!("{} chunks", arena.chunks()),
                ranges.len(),
            )?;
            self.check_blocks(arena.blocks(), &ranges)?;
        }
        expect(
            used == self.used_words[at],
            format!("space {at}"),
            format!("{} used words, as counted", self.used_words[at]),
            used,
        )?;
        let mut in_use = 0;
        for area in 0..space.chunks().areas() {
            in_use +=
                space.chunks().area(area).filter(|chunk| !space.chunks().is_free(*chunk)).count();
        }
        expect(
            in_use == owned.len(),
            format!("space {at}"),
            format!("{} chunks in use, those of its arenas", owned.len()),
            in_use,
        )?;
        Ok(arenas)
    }

    /// Memory that a chunk counts as committed is committed; the mask may know of more.
    fn check_committed(&self, space: &Space) -> Result<(), CheckError> {
        let node_bytes = space.nodes().first().map_or(1, super::node::Node::reserved_bytes);
        for area in 0..space.chunks().areas() {
            for chunk in space.chunks().area(area) {
                let (offset, bytes) =
                    (space.chunks().offset(chunk) as usize, space.chunks().committed_bytes(chunk));
                let mask = space.nodes()[offset / node_bytes].mask();
                let whole = bytes == 0
                    || mask
                        .stretches(offset % node_bytes, bytes)
                        .all(|(_, _, committed)| committed);
                expect(
                    whole,
                    format!("chunk at {offset:#x}"),
                    format!("its first {bytes} bytes committed"),
                    "a hole",
                )?;
            }
        }
        Ok(())
    }

    /// Free blocks are unchanged since they were put away, lie in used parts of their arena's
    /// chunks, and do not overlap.
    fn check_blocks(
        &self,
        blocks: Option<&super::free_blocks::FreeBlocks>,
        ranges: &[std::ops::Range<usize>],
    ) -> Result<(), CheckError> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        if let Some(blocks) = blocks {
            let sound = blocks
                .check(|block, words| spans.push((block.as_ptr() as usize, words * WORD_BYTES)));
            sound.map_err(|found| CheckError {
                place: "free blocks".into(),
                expected: "blocks as they were put away".into(),
                found,
            })?;
        }
        for (start, bytes) in &spans {
            let inside =
                ranges.iter().any(|range| range.contains(start) && start + bytes <= range.end);
            expect(
                inside,
                format!("free block at {start:#x}"),
                "in a chunk of its arena",
                format!("{bytes} bytes elsewhere"),
            )?;
        }
        spans.sort_unstable();
        for pair in spans.windows(2) {
            let apart = pair[0].0 + pair[0].1 <= pair[1].0;
            expect(
                apart,
                format!("block at {:#x}", pair[1].0),
                format!("behind the {} bytes at {:#x}", pair[0].1, pair[0].0),
                "an overlap",
            )?;
        }
        Ok(())
    }
}
