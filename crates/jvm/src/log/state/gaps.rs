//! Missing parts of a log between other lines, noticed by facts that the log states twice.
//!
//! After each block from a chunk, an arena prints its number of chunks and the used words of the
//! current one (`after allocation:`), and at its death the number of chunks it gave back. All of
//! this follows from earlier lines; if not, lines are missing. Lines are also missing in these
//! cases: a block is given without a request, or a thread asks twice; a thread that gets a line for
//! each block (`Metaspace::allocate`) lacks the line for one, from its chunk or from the free
//! blocks; free blocks serve no request; a chunk is handed out while in use, or comes back while
//! free. The counts are lower bounds. Arenas without a seen birth are not watched: the log's
//! beginning is known to be missing for them.
//!
//! Unnoticed, because no other line depends on them: a request with all its lines that took a free
//! block, or that took words of a chunk from which nothing was taken, and of which nothing was left
//! over, afterwards; a block given back without a later use of its place; a whole arena's life; the
//! last chunks of arenas that live to the end of the log.

use super::{At, Importer};

/// JDK 17's smallest block, in words.
const SMALLEST_WORDS: u64 = 2;

/// An arena's last line about its chunks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Level {
    /// Its birth was seen.
    pub watched: bool,
    /// Chunks.
    pub chunks: u64,
    /// Base of the current one.
    pub base: u64,
    /// Words used of it.
    pub used: u64,
    /// Blocks given since without a request; already counted.
    pub unasked: u64,
}

/// Lower bounds of the missing parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    pub places: u64,
    /// The first line where a gap was noticed.
    pub first: u64,
    pub words: u64,
    pub blocks: u64,
    pub chunks: u64,
    /// Lines with bytes that are no text.
    pub damaged: u64,
}

impl Gaps {
    /// Notes a gap before line `number`.
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

    /// A sentence; `None`: no known gap.
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
    /// Compares an arena's line after a block of its current chunk with earlier lines.
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
            // The next line is counted: a block without a request.
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

    /// Handles an arena's line with the block's address: `wastage` words before it were left over
    /// for alignment.
    pub(super) fn explained(&mut self, arena: u64, wastage: u64, at: &At) {
        let (words, blocks) = std::mem::take(&mut self.thread(at).gap);
        let words = words.saturating_sub(wastage);
        if words > 0 && self.jvm.arenas.contains_key(&arena) {
            self.gaps.note(at.number, Gaps { words, blocks, ..Gaps::default() });
        }
    }

    /// Handles a block that this thread did not ask for. Its size is unknown; an unknown arena
    /// means an unseen beginning.
    pub(super) fn nobody_asked(&mut self, arena: u64, at: &At) {
        if let Some(arena) = self.jvm.arenas.get_mut(&arena).filter(|arena| arena.level.watched) {
            arena.level.unasked += 1;
            self.gaps.note(at.number, Gaps { blocks: 1, ..Gaps::default() });
        }
    }

    /// Handles a second request before an answer: the answer is missing, and perhaps more, which
    /// other checks notice.
    pub(super) fn unanswered(&mut self, at: &At) {
        let thread = self.thread(at);
        thread.gap = (0, 0);
        let Some(request) = thread.request else { return };
        let what = match (request.address, request.from_free_blocks, thread.told) {
            (None, false, _) => Gaps::default(),
            // The block is lost: its address was in the missing line.
            (None, true, true) => Gaps { blocks: 1, ..Gaps::default() },
            (Some(_), _, true) => Gaps::default(),
            // The VM thread asks for others after a collection; the line goes to the requesting
            // thread.
            (_, _, false) => return,
        };
        self.gaps.note(at.number, what);
    }

    /// JDK 17: an arena will give one of its free blocks. Without a request, the request is
    /// missing; later JDKs print the block, and other checks notice.
    pub(super) fn free_block_given(&mut self, arena: u64, at: &At) {
        let explicit = self.jvm.explicit;
        if let Some(request) = self.thread(at).request.as_mut() {
            request.from_free_blocks = true;
        } else if !explicit && self.jvm.arenas.get(&arena).is_some_and(|arena| arena.level.watched)
        {
            self.gaps.note(at.number, Gaps { blocks: 1, ..Gaps::default() });
        }
    }

    /// Handles a chunk handed out; if already in use, the line of its return is missing.
    pub(super) fn chunk_out(&mut self, base: u64, at: &At) {
        if !self.jvm.chunks_out.insert(base) {
            self.gaps.note(at.number, Gaps::default());
        }
    }

    /// Handles a returned chunk; if not in use, the line of its handing out is missing, or the
    /// log's beginning, which is known then.
    pub(super) fn chunk_back(&mut self, base: u64, at: &At) {
        if !self.jvm.chunks_out.remove(&base) && self.jvm.began {
            self.gaps.note(at.number, Gaps::default());
        }
    }

    /// Handles the rest of a chunk that goes to the free blocks: the last block's line gives its
    /// used words.
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

    /// Checks that a dying arena has given back all its chunks.
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
