//! Parts of a log that are missing between other lines: what the log itself says twice tells of
//! them.
//!
//! After each block that it gives of a chunk, an arena says how many chunks it has and how many
//! words of the current one are used (`after allocation:`), and where it dies, how many chunks it
//! gave back. All of that follows from the lines before; where it does not, lines are missing. So
//! are they where a block is given that nobody asked for, or where a thread asks twice; where a
//! thread that is told of its blocks (`Metaspace::allocate`) was not told of one, of its chunk or
//! of the free blocks; where free blocks serve what nobody asked for; where a chunk is handed out
//! that is in use, or comes back that is not. What is counted is the least that must have been
//! there. Arenas whose birth was not seen are not watched: of those it is known already that the
//! beginning is missing.
//!
//! Not noticed, because no other line depends on it: a request with all of its lines that took a
//! free block, or that took words of a chunk from which nothing was taken, and of which nothing was
//! left over, afterwards; a block given back with nothing in its place later; a whole arena's life;
//! the last chunks of arenas that live to the end of the log.

use super::{At, Importer};

/// JDK 17's smallest block, in words.
const SMALLEST_WORDS: u64 = 2;

/// What an arena said last of its chunks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Level {
    /// Its birth was seen.
    pub watched: bool,
    /// Chunks.
    pub chunks: u64,
    /// Where the current one begins.
    pub base: u64,
    /// Words used of it.
    pub used: u64,
    /// Blocks that it gave since and that nobody had asked for: they are counted already.
    pub unasked: u64,
}

/// What is missing, at the least.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    pub places: u64,
    /// The line where it was noticed first.
    pub first: u64,
    pub words: u64,
    pub blocks: u64,
    pub chunks: u64,
    /// Lines that hold bytes which are no text.
    pub damaged: u64,
}

impl Gaps {
    /// Before line `number` something is missing.
    pub fn note(&mut self, number: u64, what: Gaps) {
        if self.places == 0 {
            self.first = number;
        }
        self.places += 1;
        self.words = self.words.saturating_add(what.words);
        self.blocks += what.blocks;
        self.chunks = self.chunks.saturating_add(what.chunks);
        self.damaged += what.damaged;
    }

    /// In a sentence; `None`: nothing is known to be missing.
    pub fn said(&self) -> Option<String> {
        let counted = [
            (self.blocks, "block"),
            (self.words, "word"),
            (self.chunks, "chunk"),
            (self.damaged, "damaged line"),
        ];
        let mut parts: Vec<String> = Vec::new();
        for (count, one) in counted.into_iter().filter(|(count, _)| *count > 0) {
            parts.push(format!("{count} {one}{}", if count == 1 { "" } else { "s" }));
        }
        let least = if parts.is_empty() {
            String::new()
        } else {
            format!("; at the least {}", parts.join(", "))
        };
        (self.places > 0).then(|| {
            let often = if self.places == 1 {
                String::from("noticed")
            } else {
                format!("noticed {} times, the first time", self.places)
            };
            format!(
                "lines of the log are missing between others: {often} at line {}{least}",
                self.first
            )
        })
    }
}

impl Importer {
    /// An arena has given a block of its current chunk, and says what it has now.
    pub(super) fn level(&mut self, address: u64, now: Level, at: &At) {
        let explicit = self.jvm.explicit;
        let asked = self
            .thread(at)
            .request
            .filter(|request| request.arena == address)
            .map(|request| request.words);
        let Some(arena) = self.jvm.arenas.get_mut(&address).filter(|arena| arena.level.watched)
        else {
            return;
        };
        let before = std::mem::replace(&mut arena.level, now);
        let Some(words) = asked else {
            // The line that follows is counted: a block that nobody asked for.
            return;
        };
        let words = if explicit { words } else { words.max(SMALLEST_WORDS) };
        let used = if before.base == now.base { before.used } else { 0 };
        let chunks = now.chunks.saturating_sub(before.chunks);
        if chunks > 0 || now.chunks < before.chunks || now.used < used.saturating_add(words) {
            self.gaps.note(at.number, Gaps { chunks, ..Gaps::default() });
        }
        let gap_words = now.used.saturating_sub(used.saturating_add(words));
        self.thread(at).gap = (gap_words, u64::from(before.unasked == 0));
    }

    /// The arena names the block: `wastage` words before it were left over where blocks are
    /// aligned.
    pub(super) fn explained(&mut self, arena: u64, wastage: u64, at: &At) {
        let (words, blocks) = std::mem::take(&mut self.thread(at).gap);
        let words = words.saturating_sub(wastage);
        if words > 0 && self.jvm.arenas.contains_key(&arena) {
            self.gaps.note(at.number, Gaps { words, blocks, ..Gaps::default() });
        }
    }

    /// An arena gives a block that this thread did not ask for. Its words are not known, and if the
    /// arena is not, neither is its beginning.
    pub(super) fn nobody_asked(&mut self, arena: u64, at: &At) {
        if let Some(arena) = self.jvm.arenas.get_mut(&arena).filter(|arena| arena.level.watched) {
            arena.level.unasked += 1;
            self.gaps.note(at.number, Gaps { blocks: 1, ..Gaps::default() });
        }
    }

    /// A thread asks although it was not answered: the answer is missing, and with it perhaps more,
    /// which is noticed otherwise.
    pub(super) fn unanswered(&mut self, at: &At) {
        let thread = self.thread(at);
        thread.gap = (0, 0);
        let Some(request) = thread.request else { return };
        let what = match (request.address, request.from_free_blocks, thread.told) {
            (None, false, _) => Gaps::default(),
            // The block is lost: where it lies was in the line that is missing.
            (None, true, true) => Gaps { blocks: 1, ..Gaps::default() },
            (Some(_), _, true) => Gaps::default(),
            // Of what the VM thread asks for after a collection, the thread is told for which it
            // did so.
            (_, _, false) => return,
        };
        self.gaps.note(at.number, what);
    }

    /// JDK 17: an arena will give one of its free blocks. Where nobody asked for it, that is
    /// missing; later JDKs name the block, which is noticed then.
    pub(super) fn free_block_given(&mut self, arena: u64, at: &At) {
        let explicit = self.jvm.explicit;
        if let Some(request) = self.thread(at).request.as_mut() {
            request.from_free_blocks = true;
        } else if !explicit && self.jvm.arenas.get(&arena).is_some_and(|arena| arena.level.watched)
        {
            self.gaps.note(at.number, Gaps { blocks: 1, ..Gaps::default() });
        }
    }

    /// A chunk is handed out; where it is in use already, the line is missing with which it came
    /// back.
    pub(super) fn chunk_out(&mut self, base: u64, at: &At) {
        if !self.jvm.chunks_out.insert(base) {
            self.gaps.note(at.number, Gaps::default());
        }
    }

    /// A chunk comes back; where it was not in use, the line is missing with which it was handed
    /// out, or the beginning, which is known then.
    pub(super) fn chunk_back(&mut self, base: u64, at: &At) {
        if !self.jvm.chunks_out.remove(&base) && self.jvm.began {
            self.gaps.note(at.number, Gaps::default());
        }
    }

    /// The rest of a chunk goes to the free blocks: it is used as far as the last block said.
    pub(super) fn salvaged(&mut self, address: u64, base: u64, used: u64, at: &At) {
        let Some(arena) = self
            .jvm
            .arenas
            .get_mut(&address)
            .filter(|arena| arena.level.watched && arena.level.base == base)
        else {
            return;
        };
        let words = used.saturating_sub(std::mem::replace(&mut arena.level.used, used));
        if words > 0 {
            self.gaps.note(at.number, Gaps { words, blocks: 1, ..Gaps::default() });
        }
    }

    /// An arena that dies has given back all its chunks.
    pub(super) fn gave_back(&mut self, address: u64, chunks: u64, at: &At) {
        let Some(level) =
            self.jvm.arenas.get(&address).map(|arena| arena.level).filter(|level| level.watched)
        else {
            return;
        };
        if chunks != level.chunks {
            self.gaps.note(
                at.number,
                Gaps { chunks: chunks.saturating_sub(level.chunks), ..Gaps::default() },
            );
        }
    }
}
