//! The log's messages about arenas and their blocks, as events.

use super::gaps::Level;
use super::jvm::{Jvm, LiveArena, Request};
use super::{At, Importer, Map, ROOT_BYTES, WORD, place};
use crate::ChunkOp;
use crate::log::kind::Possible;
use crate::log::message::ArenaMessage;
use heaplab_trace::program::SIZE_MAX;
use heaplab_trace::tables::Arena;
use heaplab_trace::{Event, EventSink, Flags, Op, TraceError};

/// log2 of a word's bytes.
const WORD_LOG2: u8 = 3;
/// JDK 17's smallest block, in words.
const SMALLEST_WORDS: u64 = 2;

impl Importer {
    pub(super) fn about_arena(
        &mut self,
        address: u64,
        class: bool,
        what: ArenaMessage,
        at: &At,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        match what {
            ArenaMessage::Born => self.born(address, class, true, at, sink),
            ArenaMessage::Dies => self.dies(address, at, sink),
            ArenaMessage::Requested { words } => self.requested(address, class, words, at, sink),
            ArenaMessage::Returning { address: block } => {
                self.explained(address, 0, at);
                self.answer(address, block, 0, at);
                Ok(())
            }
            ArenaMessage::ReturningBlock { address: block, words, wastage } => {
                self.explained(address, wastage.map_or(0, |(_, words)| words), at);
                self.answer(address, block, words, at);
                self.thread(at).wastage = wastage.map(|(address, _)| address);
                Ok(())
            }
            ArenaMessage::Level { chunks, base, used } => {
                self.level(address, Level { watched: true, chunks, base, used, unasked: 0 }, at);
                Ok(())
            }
            ArenaMessage::NewChunk => {
                if let Some(arena) = self.jvm.arenas.get_mut(&address) {
                    arena.level.chunks += 1;
                }
                Ok(())
            }
            ArenaMessage::GaveBack { chunks } => {
                self.gave_back(address, chunks, at);
                Ok(())
            }
            ArenaMessage::FromFreeBlocks => {
                self.free_block_given(address, at);
                Ok(())
            }
            ArenaMessage::Failed => match self.jvm.take_request(at.tid, None) {
                Some(request) => self.push(
                    Event {
                        flags: Flags::FAILED,
                        arena: request.row,
                        size: request.words * WORD,
                        ..Event::default()
                    },
                    at,
                    sink,
                ),
                None => Ok(()),
            },
            ArenaMessage::Salvaging { base, used, rest } => {
                self.salvaged(address, base, used, at);
                if !self.jvm.explicit {
                    let row = self.jvm.arenas.get(&address).map_or(0, |arena| arena.row);
                    self.chunk(
                        ChunkOp::Leftover,
                        base.wrapping_add(used.wrapping_mul(WORD)),
                        rest.saturating_mul(WORD),
                        row,
                    );
                }
                Ok(())
            }
            ArenaMessage::Deallocating { address: block, words } => {
                self.deallocated(address, block, words, at, sink)
            }
            ArenaMessage::AddedToFreeBlocks { address: block, words } => {
                let row = self.jvm.arenas.get(&address).map_or(0, |arena| arena.row);
                if self.thread(at).wastage == Some(block) {
                    self.thread(at).wastage = None;
                    self.chunk(ChunkOp::Leftover, block, words.saturating_mul(WORD), row);
                    return Ok(());
                }
                self.deallocated(address, block, words, at, sink)
            }
            ArenaMessage::Other | ArenaMessage::Unknown => Ok(()),
        }
    }

    fn dies(&mut self, address: u64, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        let Some(arena) = self.jvm.arenas.remove(&address) else {
            return self.wrong(
                "arenas die that were never born",
                format!("arena {address:#x} dies, but it was never born{}", self.lost()),
                at,
            );
        };
        self.counts.live_arenas -= 1;
        self.push(
            Event {
                op: Op::ArenaDeath,
                arena: arena.row,
                object: arena.row.into(),
                ..Event::default()
            },
            at,
            sink,
        )
    }

    fn requested(
        &mut self,
        address: u64,
        class: bool,
        words: u64,
        at: &At,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        self.unanswered(at);
        self.settle(at, sink)?;
        if words > ROOT_BYTES / WORD {
            if self.options.lenient {
                self.drop_line("[request is|requests are] for more words than any chunk has", at);
                return Ok(());
            }
            let (what, limit) = ("the words of a request", ROOT_BYTES / WORD);
            return Err(TraceError::Limit {
                path: self.options.name.clone(),
                place: place(at),
                what,
                found: words,
                limit,
            });
        }
        if !self.jvm.arenas.contains_key(&address) {
            let what = format!(
                "arena {address:#x} is asked for {words} words, but it was never born{}",
                self.lost()
            );
            self.wrong(
                "arenas were in use before they were born: they are taken as born there",
                what,
                at,
            )?;
            self.born(address, class, false, at, sink)?;
        }
        self.requests += 1;
        let row = self.jvm.arenas.get(&address).map_or(0, |arena| arena.row);
        self.thread(at).request = Some(Request {
            arena: address,
            row,
            words,
            address: None,
            usable_words: 0,
            from_free_blocks: false,
        });
        Ok(())
    }

    fn born(
        &mut self,
        address: u64,
        class: bool,
        seen: bool,
        at: &At,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        if let Some(row) = self.jvm.arenas.get(&address).map(|arena| arena.row) {
            let what = format!(
                "arena {address:#x} is born, but it was born before and has not died (a part of the log is missing?)"
            );
            self.wrong(
                "arenas are born where another still lived: that one is taken as dead",
                what,
                at,
            )?;
            self.jvm.arenas.remove(&address);
            self.counts.live_arenas -= 1;
            self.push(
                Event { op: Op::ArenaDeath, arena: row, object: row.into(), ..Event::default() },
                at,
                sink,
            )?;
        }
        let row = self.out.tables.arenas.len() as u32;
        let kind = if class { "class" } else { "non-class" };
        self.out.tables.arenas.push(Arena { kind: kind.into(), ..Arena::default() });
        let (possible, level) = (Possible::default(), Level { watched: seen, ..Level::default() });
        self.jvm.arenas.insert(
            address,
            LiveArena {
                row,
                class,
                partner: None,
                possible,
                settled: !seen,
                blocks: Map::default(),
                level,
            },
        );
        self.counts.arenas += 1;
        self.counts.live_arenas += 1;
        self.push(
            Event { op: Op::ArenaBirth, arena: row, object: row.into(), ..Event::default() },
            at,
            sink,
        )
    }

    /// Notes that two arenas have the same loader.
    pub(super) fn pair(&mut self, non_class: u64, class: Option<u64>) {
        let rows = |address| self.jvm.arenas.get(&address).map(|arena: &LiveArena| arena.row);
        let (Some(class), Some(one)) = (class, rows(non_class)) else { return };
        let Some(other) = rows(class) else { return };
        self.jvm.loaders += 1;
        let loader = format!("loader {}", self.jvm.loaders);
        for (address, row, partner, partner_address) in
            [(non_class, one, other, class), (class, other, one, non_class)]
        {
            if let Some(arena) = self.jvm.arenas.get_mut(&address) {
                arena.partner = Some(partner_address);
            }
            let table = &mut self.out.tables.arenas[row as usize];
            table.partner = Some(partner);
            table.loader.clone_from(&loader);
        }
    }

    /// Draws conclusions about the loader from an arena's first chunk.
    pub(super) fn first_chunk(&mut self, address: u64, level: u8, fitting: u8) {
        let Some(arena) = self.jvm.arenas.get_mut(&address) else { return };
        if std::mem::replace(&mut arena.settled, true) {
            return;
        }
        let partner = arena.partner;
        let possible = arena.possible.after_first_chunk(arena.class, level, fitting);
        arena.possible = possible;
        let mut rows = vec![arena.row];
        if let Some(partner) = partner.and_then(|partner| self.jvm.arenas.get_mut(&partner)) {
            partner.possible = possible;
            rows.push(partner.row);
        }
        for row in rows {
            possible.name().clone_into(&mut self.out.tables.arenas[row as usize].growth_policy);
        }
    }

    fn answer(&mut self, arena: u64, block: u64, words: u64, at: &At) {
        if let Some(request) =
            self.thread(at).request.as_mut().filter(|request| request.arena == arena)
        {
            let before = request.address.replace(block);
            request.usable_words = words;
            if let Some(before) = before
                .filter(|before| *before != block && self.jvm.given.get(before) == Some(&at.tid))
            {
                self.jvm.given.remove(&before);
            }
            self.jvm.given.insert(block, at.tid);
        } else {
            self.nobody_asked(arena, at);
        }
    }

    /// Gives the JVM its block: the request of this thread, or, after a collection to make room, of
    /// the VM thread.
    pub(super) fn returned(
        &mut self,
        metadata_type: u64,
        address: u64,
        at: &At,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        self.thread(at).told = true;
        let own = self.jvm.take_request(at.tid, Some(address));
        let others = |jvm: &mut Jvm| {
            jvm.given.get(&address).copied().and_then(|tid| jvm.take_request(tid, Some(address)))
        };
        let Some(request) = own.or_else(|| others(&mut self.jvm)) else {
            let kind = if self.jvm.began {
                "blocks were given without a line about their request"
            } else {
                "blocks without a request: the beginning of the log is missing"
            };
            self.drop_line(kind, at);
            return Ok(());
        };
        self.allocated(Request { address: Some(address), ..request }, Some(metadata_type), at, sink)
    }

    /// Emits the block that the thread got and that the log does not describe further.
    pub(super) fn settle(&mut self, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        match self.jvm.take_request(at.tid, None) {
            Some(request) if request.address.is_some() => self.allocated(request, None, at, sink),
            _ => Ok(()),
        }
    }

    fn allocated(
        &mut self,
        request: Request,
        metadata_type: Option<u64>,
        at: &At,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        let address = request.address.unwrap_or(0);
        let object = self.objects;
        let Some(arena) =
            self.jvm.arenas.get_mut(&request.arena).filter(|arena| arena.row == request.row)
        else {
            return self.wrong(
                "blocks were given by a dead arena",
                format!("arena {:#x} gives a block, but it is dead", request.arena),
                at,
            );
        };
        let words = if request.usable_words > 0 {
            request.usable_words
        } else {
            request.words.max(SMALLEST_WORDS)
        };
        let before = arena.blocks.insert(address, (object, words));
        let row = arena.row;
        if let Some((before, _)) = before {
            let what =
                format!("block {address:#x} is given, but it was given before and not given back");
            self.wrong("blocks were given twice: the first is taken as given back", what, at)?;
            self.push(
                Event { op: Op::Free, object: before, arena: row, ..Event::default() },
                at,
                sink,
            )?;
        }
        let stack = self.stack(row, metadata_type);
        let (size, usable) = (request.words * WORD, words.saturating_mul(WORD).min(SIZE_MAX));
        self.objects += 1;
        self.counts.allocations += 1;
        // Metadata is aligned to words; a heap with a larger alignment would place it elsewhere
        // than HotSpot.
        let event = Event {
            op: Op::Alloc,
            object,
            size,
            usable: usable.max(size),
            align_log2: WORD_LOG2,
            arena: row,
            ..Event::default()
        };
        self.push(Event { stack, address, ..event }, at, sink)
    }

    fn deallocated(
        &mut self,
        arena: u64,
        block: u64,
        words: u64,
        at: &At,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        let Some((row, partner)) =
            self.jvm.arenas.get(&arena).map(|arena| (arena.row, arena.partner))
        else {
            let what = format!(
                "block {block:#x} is given back to arena {arena:#x}, which is dead or was never born{}",
                self.lost()
            );
            return self.wrong("blocks were given back to arenas that do not live", what, at);
        };
        let homes = [Some(arena), partner];
        let found = homes
            .into_iter()
            .flatten()
            .find_map(|home| self.jvm.arenas.get_mut(&home)?.blocks.remove(&block));
        match found {
            Some((object, _)) => self.push(
                Event { op: Op::Free, object, arena: row, address: block, ..Event::default() },
                at,
                sink,
            ),
            None => {
                let what = format!(
                    "block {block:#x} of {words} words is given back, but arena {arena:#x} has not given it"
                );
                self.wrong("blocks were given back that had not been given", what, at)
            }
        }
    }
}
