//! Marking in 4.14: blocks wait in a ring while the processor fetches them, and get their colour
//! when they leave it.
//!
//! Source: `major_gc.c` of 4.14 (`do_some_marking`, `mark_slice`, `redarken_chunk`). The ring holds
//! 256 blocks, and at least 64 while there is anything else to scan. A slice whose work is done
//! still empties the ring: each block that leaves it then costs its header, and waits on the stack
//! with all of its fields. The stack holds ranges of fields, so after an overflow a partly scanned
//! block goes on at its place too.
//!
//! Deviation: as in [`crate::mark`], the fields of the workload's blocks are counted and not read.

use crate::block::{
    Address, BLACK, NULL, WHITE, colour_of, field, fields_of, header_at, is_scanned, load,
    next_in_memory, set_header,
};
use crate::facts::{PREFETCH_LEAST, PREFETCH_RING};
use crate::heap::OCaml;
use crate::mark::Entry;

impl OCaml {
    /// Marks `work` words. Returns whether everything alive is marked.
    pub(crate) fn mark_slice_prefetching(&mut self, mut work: i64) -> bool {
        self.marker.words = self.marker.words.wrapping_add(work as usize);
        loop {
            work = self.mark_some(work);
            let ended = work > 0 && self.marker.is_idle();
            if ended || work <= 0 {
                // Work left over was not marked; marking beyond the work was done too.
                self.marker.words = self.marker.words.wrapping_sub(work as usize);
                return ended;
            }
            self.redarken_ranges();
        }
    }

    /// Marks until the work is done or nothing waits; returns the rest of the work.
    fn mark_some(&mut self, mut work: i64) -> i64 {
        let mut ring = [NULL; PREFETCH_RING];
        let (mut entered, mut left, mut least) = (0, 0, PREFETCH_LEAST);
        loop {
            let Entry { block, from } = if entered > left + least {
                let block = ring[left % PREFETCH_RING];
                left += 1;
                let header = header_at(block);
                if colour_of(header) != WHITE {
                    continue;
                }
                set_header(block, header | BLACK);
                work -= 1;
                if !is_scanned(header) {
                    work -= fields_of(header) as i64;
                    continue;
                }
                Entry { block, from: 0 }
            } else if let Some(entry) = if work > 0 { self.marker.stack.pop() } else { None } {
                entry
            } else if least > 0 {
                least = 0;
                continue;
            } else {
                return work;
            };
            let fields = fields_of(header_at(block));
            let length = ((fields - from) as i64).min(work.max(0));
            work -= length;
            let end = from + length as usize;
            let mut at = end;
            if self.is_program(block) {
                at = from;
                while at < end {
                    let word = load(field(block, at));
                    if self.is_major(word) {
                        if entered == left + PREFETCH_RING {
                            work += (end - at) as i64;
                            break;
                        }
                        ring[entered % PREFETCH_RING] = word;
                        entered += 1;
                    }
                    at += 1;
                }
            }
            if at < fields {
                self.push_range(Entry { block, from: at });
                least = PREFETCH_LEAST;
            }
        }
    }

    fn push_range(&mut self, entry: Entry) {
        if self.marker.stack.len() == self.marker.capacity {
            self.grow_mark_stack();
        }
        self.marker.stack.push(entry);
    }

    /// Pushes the forgotten blocks of the first chunk, while the stack is less than a quarter full.
    fn redarken_ranges(&mut self) {
        let found = self.chunks.chain.iter().position(|chunk| chunk.start == self.marker.redarken);
        let Some(nth) = found else {
            self.marker.redarken = NULL;
            return;
        };
        let chunk = &self.chunks.chain[nth];
        let (mut block, last) = chunk.redarken;
        let mut from = chunk.redarken_from;
        while block <= last {
            let fields = fields_of(header_at(block));
            from =
                if self.is_program(block) { self.first_major(block, from, fields) } else { fields };
            if from < fields {
                if self.marker.stack.len() >= self.marker.capacity / 4 {
                    let chunk = &mut self.chunks.chain[nth];
                    (chunk.redarken.0, chunk.redarken_from) = (block, from);
                    return;
                }
                self.marker.stack.push(Entry { block, from });
            }
            from = 0;
            loop {
                block = next_in_memory(block);
                if block > last {
                    break;
                }
                let header = header_at(block);
                if colour_of(header) == BLACK && is_scanned(header) {
                    break;
                }
            }
        }
        let chunk = &mut self.chunks.chain[nth];
        (chunk.redarken, chunk.redarken_from) = ((chunk.end, NULL), 0);
        self.marker.redarken = self.chunks.chain.get(nth + 1).map_or(NULL, |chunk| chunk.start);
    }

    /// The first field from `from` on that refers to a block of the major heap.
    fn first_major(&self, block: Address, from: usize, fields: usize) -> usize {
        (from..fields).find(|nth| self.is_major(load(field(block, *nth)))).unwrap_or(fields)
    }
}
