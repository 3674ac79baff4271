//! The heap's invariants, and a walk over its blocks.

use crate::best_fit::BestFit;
use crate::block::field;
use crate::block::{
    Address, BLACK, BLUE, NULL, WHITE, colour_of, fields_at, header_at, is_block, load,
    next_in_memory, words_of,
};
use crate::facts::{BEST_FIT_SMALL, IMMEDIATE, PAGE_BYTES, WORD_BYTES};
use crate::first_fit::FirstFit;
use crate::fit::{CONTROL_WORDS, Fit};
use crate::heap::OCaml;
use crate::log::Phase;
use crate::next_fit::NextFit;
use crate::{ordered, splay};
use heaplab_heap::{CheckError, Footprint, Heap, Part, Role};
use std::collections::HashSet;

fn broken<T>(
    place: impl Into<String>,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> Result<T, CheckError> {
    Err(CheckError { place: place.into(), expected: expected.into(), found: found.into() })
}

impl OCaml {
    /// All blocks of the major heap with their headers, in chain order.
    fn blocks(&self) -> impl Iterator<Item = (Address, usize)> {
        self.chunks.chain.iter().flat_map(|chunk| {
            let end = chunk.end;
            let next =
                move |block: &Address| Some(next_in_memory(*block)).filter(|next| *next < end);
            std::iter::successors(Some(chunk.start + WORD_BYTES), next)
                .map(|block| (block, header_at(block)))
        })
    }

    /// Chunks are cut into blocks without gaps, and colours fit the phase.
    fn check_blocks(&self) -> Result<(), CheckError> {
        for (nth, chunk) in self.chunks.chain.iter().enumerate() {
            let mut at = chunk.start;
            while at < chunk.end {
                let header = load(at);
                // The sweeper has made everything that it passed white.
                let passed = nth < self.sweeper.chunk
                    || nth == self.sweeper.chunk && at < self.free.shared.sweep_at;
                let black = self.phase == Phase::Mark || self.phase == Phase::Sweep && !passed;
                let legal = matches!(colour_of(header), WHITE | BLUE)
                    || colour_of(header) == BLACK && black;
                if !legal {
                    let place = format!("chunk {nth}, block {:#x}", at + WORD_BYTES);
                    return broken(
                        place,
                        format!("a colour of phase {:?}", self.phase),
                        format!("header {header:#x}"),
                    );
                }
                at += words_of(header) * WORD_BYTES;
            }
            if at != chunk.end {
                return broken(
                    format!("chunk {nth}"),
                    format!("blocks up to {:#x}", chunk.end),
                    format!("up to {at:#x}"),
                );
            }
        }
        Ok(())
    }

    /// The free set holds each blue block once, and best-fit's white remnants; its words add up.
    fn check_free_set(&self) -> Result<(), CheckError> {
        let listed = match &self.free.fit {
            Fit::Next(fit) => listed_next(fit)?,
            Fit::First(fit) => listed_first(fit)?,
            Fit::Best(fit) => listed_best(fit)?,
        };
        let mut blue: HashSet<Address> = self
            .blocks()
            .filter(|(_, header)| colour_of(*header) == BLUE)
            .map(|(block, _)| block)
            .collect();
        for block in &listed {
            if colour_of(header_at(*block)) == BLUE && !blue.remove(block) {
                return broken(
                    format!("free block {block:#x}"),
                    "a blue block of a chunk, listed once",
                    "another or a second one",
                );
            }
        }
        if let Some(block) = blue.iter().next() {
            return broken(
                "the free set",
                format!("every blue block, {block:#x} too"),
                format!("{} are missing", blue.len()),
            );
        }
        let words: usize = listed.iter().map(|block| fields_at(*block) + 1).sum();
        if words != self.free.shared.free_words {
            return broken(
                "the free set",
                format!("{} words", self.free.shared.free_words),
                words.to_string(),
            );
        }
        Ok(())
    }

    /// Each slot holds an immediate value or an object of this heap, and no object is in two slots.
    fn check_slots(&self) -> Result<(), CheckError> {
        let heads: HashSet<Address> = self.blocks().map(|(block, _)| block).collect();
        let remembered: HashSet<u32> = self.minor.remembered.iter().copied().collect();
        let mut seen = HashSet::new();
        for slot in 0..self.program.count {
            let word = load(field(self.program.slots, slot));
            let legal = if !is_block(word) {
                word == IMMEDIATE
            } else if self.minor.has(word) {
                remembered.contains(&(slot as u32)) && word > self.minor.at && seen.insert(word)
            } else {
                heads.contains(&word) && colour_of(header_at(word)) != BLUE && seen.insert(word)
            };
            if !legal {
                return broken(
                    format!("slot {slot}"),
                    "0, or an object that no other slot has",
                    format!("{word:#x}"),
                );
            }
        }
        Ok(())
    }
}

fn listed_next(fit: &NextFit) -> Result<Vec<Address>, CheckError> {
    let listed = listed_ordered(&fit.list)?;
    if fit.rover != fit.list.head && !listed.contains(&fit.rover) {
        return broken("next-fit's rover", "a free block", format!("{:#x}", fit.rover));
    }
    Ok(listed)
}

fn listed_ordered(list: &ordered::Ordered) -> Result<Vec<Address>, CheckError> {
    let mut listed: Vec<Address> = Vec::new();
    for block in list.blocks() {
        if listed.last().is_some_and(|last| *last >= block) {
            return broken("the free list", "ascending addresses", format!("{block:#x}"));
        }
        listed.push(block);
    }
    Ok(listed)
}

/// Checks also that the table has the first records, in order.
fn listed_first(fit: &FirstFit) -> Result<Vec<Address>, CheckError> {
    let listed = listed_ordered(&fit.list)?;
    let (mut record, mut previous, mut table) = (0, fit.list.head, fit.table.iter());
    for block in &listed {
        if ordered::size(*block) > record {
            record = ordered::size(*block);
            if table.next().is_some_and(|entry| *entry != previous) {
                return broken(
                    "first-fit's table",
                    format!("{previous:#x}, the block before a record"),
                    "another block",
                );
            }
        }
        previous = *block;
    }
    if table.next().is_some() {
        return broken(
            "first-fit's table",
            "no more entries than records",
            fit.table.len().to_string(),
        );
    }
    Ok(listed)
}

fn listed_best(fit: &BestFit) -> Result<Vec<Address>, CheckError> {
    let mut listed = Vec::new();
    for size in 1..=BEST_FIT_SMALL {
        let mut blue = NULL;
        for block in fit.small(size) {
            let header = header_at(block);
            let in_order = if colour_of(header) == WHITE {
                blue == NULL
            } else {
                colour_of(header) == BLUE && block > blue
            };
            if !in_order || fields_at(block) != size {
                return broken(
                    format!("best-fit's list {size}, block {block:#x}"),
                    "white ones, then blue ones by address",
                    format!("{header:#x}"),
                );
            }
            blue = if colour_of(header) == BLUE { block } else { NULL };
            listed.push(block);
        }
        let filled = fit.filled() >> (size - 1) & 1 == 1;
        if filled != fit.small(size).next().is_some() {
            return broken(
                format!("best-fit's bit of size {size}"),
                "set where the list has a block",
                filled.to_string(),
            );
        }
    }
    let mut smaller = BEST_FIT_SMALL;
    let mut waiting = Vec::new();
    let mut node = fit.tree.root();
    let mut smallest = NULL;
    while node != NULL || !waiting.is_empty() {
        while node != NULL {
            waiting.push(node);
            node = splay::left(node);
        }
        let Some(here) = waiting.pop() else { break };
        if smallest == NULL {
            smallest = here;
        }
        let size = fields_at(here);
        if size <= smaller || !splay::is_node(here) {
            return broken(
                format!("best-fit's tree, node {here:#x}"),
                format!("a node above {smaller} fields"),
                size.to_string(),
            );
        }
        smaller = size;
        listed_circle(here, &mut listed)?;
        node = splay::right(here);
    }
    let least = fit.tree.least;
    if least != NULL && (least != smallest || splay::next(least) != least) {
        return broken(
            "best-fit's least block",
            format!("{smallest:#x}, alone in its list"),
            format!("{least:#x}"),
        );
    }
    Ok(listed)
}

fn listed_circle(node: Address, listed: &mut Vec<Address>) -> Result<(), CheckError> {
    let mut block = node;
    loop {
        let next = splay::next(block);
        if fields_at(block) != fields_at(node)
            || splay::previous(next) != block
            || splay::is_node(block) != (block == node)
        {
            return broken(
                format!("best-fit's list of {} fields", fields_at(node)),
                "a circle of blocks of that size",
                format!("{block:#x}"),
            );
        }
        listed.push(block);
        block = next;
        if block == node {
            return Ok(());
        }
    }
}

impl Heap for OCaml {
    fn version(&self) -> String {
        format!("the rules of OCaml {}, {}", self.strategy.name, self.spec.policy.name())
    }

    fn footprint(&self) -> Footprint {
        let bytes = |words: usize| Some((words * WORD_BYTES) as u64);
        let free = self.free.shared.free_words;
        Footprint {
            used_bytes: bytes(self.chunks.words - free + self.minor.used_words()),
            free_reusable_bytes: bytes(free + self.minor.words() - self.minor.used_words()),
            committed_bytes: Some(self.chunks.committed_bytes() as u64),
            resident_bytes: self.chunks.resident_bytes().map(|bytes| bytes as u64),
            ..Footprint::default()
        }
    }

    fn check(&self) -> Result<(), CheckError> {
        let sum: usize = self.chunks.chain.iter().map(crate::chunk::Chunk::words).sum();
        if sum != self.chunks.words || self.free.shared.free_words > sum {
            return broken(
                "words of the major heap",
                sum.to_string(),
                format!("{} of which {} free", self.chunks.words, self.free.shared.free_words),
            );
        }
        if self.minor.at < self.minor.range.start || self.minor.at > self.minor.range.end {
            return broken(
                "the minor heap",
                format!("{:x?}", self.minor.range),
                format!("{:#x}", self.minor.at),
            );
        }
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.check()?;
        self.check_blocks()?;
        self.check_free_set()?;
        if self.program.slots == NULL { Ok(()) } else { self.check_slots() }
    }

    fn walk(&self) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        let heads = self.chunks.control..self.chunks.minor.start;
        debug_assert!(
            heads.len() >= CONTROL_WORDS * WORD_BYTES && heads.len().is_multiple_of(PAGE_BYTES)
        );
        parts.push(Part::new(0, Role::Vacant, "(heads of lists)", heads));
        parts.push(Part::new(0, Role::Chunk, "minor heap", self.minor.range.clone()));
        if self.minor.at > self.minor.range.start {
            parts.push(Part::new(1, Role::Vacant, "(free)", self.minor.range.start..self.minor.at));
        }
        if self.minor.at < self.minor.range.end {
            parts.push(Part::new(1, Role::Blocks, "blocks", self.minor.at..self.minor.range.end));
        }
        for chunk in &self.chunks.chain {
            parts.push(Part::new(0, Role::Chunk, "chunk", chunk.start..chunk.end));
            let mut at = chunk.start;
            while at < chunk.end {
                // Runs of blocks, and runs of free ones.
                let (start, free) = (at, colour_of(load(at)) == BLUE);
                while at < chunk.end && (colour_of(load(at)) == BLUE) == free {
                    at += words_of(load(at)) * WORD_BYTES;
                }
                let (role, name) =
                    if free { (Role::Vacant, "(free blocks)") } else { (Role::Blocks, "blocks") };
                parts.push(Part::new(1, role, name, start..at));
            }
        }
        Some(parts)
    }
}
