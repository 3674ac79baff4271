//! One line of the log: its decorations and its message.
//!
//! HotSpot writes these lines in `metaspaceArena.cpp`, `chunkManager.cpp`, `metachunk.cpp`,
//! `virtualSpaceNode.cpp`, `rootChunkArea.cpp`, `classLoaderMetaspace.cpp` and `metaspace.cpp`. JDK
//! 17 calls an arena "(class sm)", later ones "(class arena)"; 17 says
//! `deallocating P, word size: N` and `returning P`, 24 and later
//! `added to fbl: block (@P word size N)` and `returning block (@P word size N) taken from arena`.
//! Both are read, whatever other decorations the line has.

use heaplab_trace::import::lines::{decimal, hexadecimal};
use jiff::civil::DateTime;

/// Start of a line that no JVM wrote: heaplab's own notes between the lines of a recording
/// (`crates/record/src/jvm`).
const NOTE: &[u8] = b"heaplab: ";

/// The brackets before the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decorations {
    /// ns since the JVM began, if a decoration has it.
    pub time_ns: Option<u64>,
    /// ns since 1970 by the calendar (`time`, `utctime`), if a decoration has it.
    pub calendar_ns: Option<u64>,
    /// The thread, if a decoration has it.
    pub tid: Option<u64>,
    /// The process, if a decoration has it.
    pub pid: Option<u64>,
}

/// The message of a line. Addresses are as printed, sizes in words of 8 bytes.
///
/// `explicit`: the log names each rest's destination ("arena"). Otherwise ("sm", up to JDK 23) it
/// follows from the salvaged blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A message about an arena.
    Arena { arena: u64, class: bool, explicit: bool, what: ArenaMessage },
    /// A class loader's two arenas.
    Loader { non_class: u64, class: Option<u64> },
    /// A request to the chunk manager for a chunk.
    ChunkRequest { level: u8, max_level: u8 },
    /// The chunk manager gives it.
    ChunkOut { base: u64, level: u8 },
    /// A chunk in use comes back.
    ChunkBack { base: u64, level: u8 },
    /// A chunk from the free lists goes back there, because the requested part of it could not be
    /// committed.
    ChunkRefused { base: u64, level: u8 },
    /// The new root chunk belongs to class space, or not.
    RootSpace { class: bool },
    /// The new node belongs to non-class space (`added new node`).
    NodeAdded,
    /// A purge begins.
    Purge,
    /// Address space was reserved.
    Node { base: u64, words: u64 },
    /// A root chunk was made.
    Root { base: u64 },
    /// A commit of a range begins.
    Committing { from: u64, to: u64 },
    /// The commit succeeded: so many words more are committed than before.
    Committed { words: u64 },
    /// How much more may be committed, before a commit is tried.
    Left { until_max_words: u64, until_threshold_words: u64 },
    /// The commit failed.
    CommitRefused,
    /// A range is uncommitted.
    Uncommitting { from: u64, to: u64 },
    /// So many words fewer are committed.
    Uncommitted { words: u64 },
    /// A chunk's commit line is about to move.
    Line { base: u64, words: u64 },
    /// A chunk has grown.
    Enlarged { base: u64, level: u8 },
    /// An allocation is given to the JVM.
    Returned { metadata_type: u64, address: u64 },
    /// The commit granule, in bytes.
    Granule { bytes: u64 },
    /// The reclaim policy (JDK 16 to 20; 21 removed it).
    Policy(&'a [u8]),
    /// A report follows, because an allocation failed (`report_metadata_oome`): it repeats the
    /// commit granule.
    Failed,
    /// heaplab's note of the recorded process: its program and parent, as JSON.
    Process(&'a [u8]),
    /// heaplab's note of its resident memory.
    Memory { resident_bytes: u64, anonymous_bytes: u64 },
    /// heaplab's note of its end.
    Ended,
    /// A line of the metaspace before JDK 16, which had no arenas.
    Old,
    /// A message that importers ignore.
    Other,
    /// It begins like a line of the metaspace and continues unlike any known one.
    Unknown,
}

/// A message about an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArenaMessage {
    /// It was born.
    Born,
    /// It died.
    Dies,
    /// A request for words.
    Requested { words: u64 },
    /// It gives a block (JDK 17: from its chunks).
    Returning { address: u64 },
    /// It gives a block of so many words (24 and later: from anywhere).
    ReturningBlock { address: u64, words: u64, wastage: Option<(u64, u64)> },
    /// JDK 17: it will give one of its free blocks; the line `Metaspace::allocate` has the address.
    FromFreeBlocks,
    /// It gives no block.
    Failed,
    /// The arena got a chunk.
    NewChunk,
    /// Its number of chunks when it gives a block of its current one, and the words used of this
    /// chunk.
    Level { chunks: u64, base: u64, used: u64 },
    /// The arena has given back all of its chunks: this many.
    GaveBack { chunks: u64 },
    /// JDK 17: the committed rest of the retired chunk goes to the free blocks.
    Salvaging { base: u64, used: u64, rest: u64 },
    /// JDK 17: a block is given back.
    Deallocating { address: u64, words: u64 },
    /// 24 and later: a block is given back, or left over.
    AddedToFreeBlocks { address: u64, words: u64 },
    /// A message that importers ignore.
    Other,
    /// An unknown message.
    Unknown,
}

/// Parses a line.
pub fn parse(line: &[u8]) -> (Decorations, Message<'_>) {
    let mut decorations = Decorations::default();
    let mut rest = line;
    while let Some(inner) = rest.strip_prefix(b"[") {
        let Some(end) = memchr::memchr(b']', inner) else { break };
        decorate(&mut decorations, inner[..end].trim_ascii());
        rest = &inner[end + 1..];
    }
    (decorations, message(rest.trim_ascii()).unwrap_or(Message::Unknown))
}

fn decorate(decorations: &mut Decorations, text: &[u8]) {
    if let Some(number) = text.strip_suffix(b"ns").and_then(decimal) {
        decorations.time_ns = Some(number);
    } else if let Some(number) = text.strip_suffix(b"ms").and_then(decimal) {
        decorations.time_ns.get_or_insert(number.saturating_mul(1_000_000));
    } else if let Some(time_ns) = text.strip_suffix(b"s").and_then(seconds) {
        decorations.time_ns.get_or_insert(time_ns);
    } else if let Some(time_ns) = calendar(text) {
        decorations.calendar_ns = Some(time_ns);
    } else if let Some(number) = decimal(text) {
        // Two bare numbers are pid and tid, in that order.
        decorations.pid = decorations.tid;
        decorations.tid = Some(number);
    }
}

/// `1.234` seconds in ns.
fn seconds(text: &[u8]) -> Option<u64> {
    let point = memchr::memchr2(b'.', b',', text)?;
    let (whole, fraction) = (decimal(&text[..point])?, &text[point + 1..]);
    let scale = 10u64.checked_pow(9u32.checked_sub(fraction.len() as u32)?)?;
    whole.checked_mul(1_000_000_000)?.checked_add(decimal(fraction)? * scale)
}

/// `2026-11-22T00:45:33.123+0000` in ns since 1970; ignores the offset, the same in every line of a
/// log.
fn calendar(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text.get(.."2026-11-22T00:45:33.123".len())?).ok()?;
    let since =
        text.parse::<DateTime>().ok()?.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    u64::try_from(since.as_nanos()).ok()
}

/// `None`: it begins like a known line and continues differently.
fn message(text: &[u8]) -> Option<Message<'_>> {
    if let Some(rest) = text.strip_prefix(b"Arena @") {
        return of_arena(rest);
    }
    if let Some(rest) = text.strip_prefix(b"Metaspace::allocate: type ") {
        let (metadata_type, rest) = number(rest)?;
        let (address, _) = address(rest.strip_prefix(b" return ")?)?;
        return Some(Message::Returned { metadata_type, address });
    }
    if let Some(rest) = text.strip_prefix(b"ChkMgr @") {
        return chunk_manager(rest);
    }
    if let Some(rest) = text.strip_prefix(b"VsListNode @") {
        return node(rest);
    }
    if let Some(rest) = text.strip_prefix(b"allowed expansion words: ") {
        let (until_max_words, rest) = number(after(rest, b"left_until_max: ")?)?;
        let (until_threshold_words, _) = number(after(rest, b"left_until_GC: ")?)?;
        return Some(Message::Left { until_max_words, until_threshold_words });
    }
    if let Some(rest) = text.strip_prefix(b"Chunk @") {
        let (base, _, rest) = chunk(rest)?;
        let rest = after(rest, b"attempting to move commit line to ")?;
        return Some(Message::Line { base, words: number(rest)?.0 });
    }
    if let Some(rest) = text.strip_prefix(b"Enlarged chunk @") {
        let (base, level, _) = chunk(rest)?;
        return Some(Message::Enlarged { base, level });
    }
    if let Some(rest) = text.strip_prefix(b"CLMS @") {
        let Some(rest) = after(rest, b": born (nonclass arena: ") else {
            return Some(Message::Other);
        };
        let (non_class, rest) = address(rest)?;
        let class =
            rest.strip_prefix(b", class arena: ").and_then(address).map(|(address, _)| address);
        return Some(Message::Loader { non_class, class });
    }
    if let Some(rest) = text.strip_prefix(b"VsList @") {
        return Some(if after(rest, b"(non-class-space): added new node").is_some() {
            Message::NodeAdded
        } else {
            Message::Other
        });
    }
    if let Some(rest) = text.strip_prefix(b"- commit_granule_bytes: ") {
        return Some(Message::Granule { bytes: number(rest)?.0 });
    }
    if let Some(rest) = text.strip_prefix(b"Initialized with strategy: ") {
        return Some(Message::Policy(rest.strip_suffix(b" reclaim.").unwrap_or(rest)));
    }
    if let Some(rest) = text.strip_prefix(b"Metaspace (") {
        let failed = after(rest, b") allocation failed for size ").is_some();
        return Some(if failed { Message::Failed } else { Message::Other });
    }
    if let Some(rest) = text.strip_prefix(NOTE) {
        return of_recorder(rest);
    }
    // `SpaceManager` of metaspace.cpp of JDK 9 to 15.
    let is_old = [&b"SpaceManager"[..], b"Metachunk: bottom ", b"Metaspace(): "]
        .iter()
        .any(|start| text.starts_with(start));
    Some(if is_old { Message::Old } else { Message::Other })
}

/// A line of the recorder, behind [`NOTE`].
fn of_recorder(rest: &[u8]) -> Option<Message<'_>> {
    if let Some(rest) = rest.strip_prefix(b"process ") {
        return Some(Message::Process(rest));
    }
    if rest == b"ended" {
        return Some(Message::Ended);
    }
    let (resident_bytes, rest) = number(rest.strip_prefix(b"memory ")?)?;
    let (anonymous_bytes, _) = number(rest.strip_prefix(b" ")?)?;
    Some(Message::Memory { resident_bytes, anonymous_bytes })
}

/// A line of an arena, from the arena's address on.
fn of_arena(rest: &[u8]) -> Option<Message<'_>> {
    let (arena, rest) = address(rest)?;
    let rest = rest.strip_prefix(b" (")?;
    let class = rest.starts_with(b"class ");
    if !class && !rest.starts_with(b"non-class ") {
        return None;
    }
    let end = memchr::memchr(b')', rest)?;
    let explicit = rest[..end].ends_with(b" arena");
    let rest = rest[end + 1..].strip_prefix(b": ")?;
    let what =
        arena_message(rest.strip_prefix(b": ").unwrap_or(rest)).unwrap_or(ArenaMessage::Unknown);
    Some(Message::Arena { arena, class, explicit, what })
}

fn arena_message(text: &[u8]) -> Option<ArenaMessage> {
    let known = match text.first()? {
        b'r' => {
            if let Some(rest) = text.strip_prefix(b"requested ") {
                ArenaMessage::Requested { words: number(rest)?.0 }
            } else if let Some(rest) = text.strip_prefix(b"returning block (") {
                let (address, words, rest) = block(rest)?;
                // A block from the free blocks has two such lines: first with the blocks' state,
                // then the usual one.
                if rest.starts_with(b") with wastage ") {
                    return Some(ArenaMessage::Other);
                }
                let wastage = after(rest, b"wastage block (")
                    .and_then(block)
                    .map(|(address, words, _)| (address, words));
                ArenaMessage::ReturningBlock { address, words, wastage }
            } else if let Some(rest) = text.strip_prefix(b"returning ") {
                ArenaMessage::Returning { address: address(rest)?.0 }
            } else if let Some((chunks, rest)) = text.strip_prefix(b"returned ").and_then(number)
                && rest.starts_with(b" chunks")
            {
                ArenaMessage::GaveBack { chunks }
            } else {
                // "return chunk"
                ArenaMessage::Other
            }
        }
        b'b' if text.starts_with(b"born.") => ArenaMessage::Born,
        b'd' if text.starts_with(b"dies.") => ArenaMessage::Dies,
        b'd' => {
            let (address, rest) = address(text.strip_prefix(b"deallocating ")?)?;
            ArenaMessage::Deallocating {
                address,
                words: number(rest.strip_prefix(b", word size: ")?)?.0,
            }
        }
        b'a' => {
            if let Some(rest) = text.strip_prefix(b"after allocation: ") {
                level(rest).unwrap_or(ArenaMessage::Other)
            } else if let Some(rest) = text.strip_prefix(b"added to fbl: block (") {
                let (address, words, _) = block(rest)?;
                ArenaMessage::AddedToFreeBlocks { address, words }
            } else if text.starts_with(b"allocated new chunk @") {
                ArenaMessage::NewChunk
            } else {
                text.strip_prefix(b"allocation failed")?;
                ArenaMessage::Failed
            }
        }
        b't' => {
            text.strip_prefix(b"taken from fbl")?;
            ArenaMessage::FromFreeBlocks
        }
        b's' => {
            let (base, _, rest) = chunk(text.strip_prefix(b"salvaging chunk @")?)?;
            let (used, rest) = number(after(rest, b"used: ")?)?;
            ArenaMessage::Salvaging {
                base,
                used,
                rest: number(after(rest, b"committed-free: ")?)?.0,
            }
        }
        // "enlarged chunk", "commit failure", "failed to allocate new chunk"
        b'e' | b'c' | b'f' => ArenaMessage::Other,
        _ => ArenaMessage::Unknown,
    };
    Some(known)
}

/// `1 chunk(s), current:@0x7f.., u, base 0x7f.., level lv12 (512), used: 275, ...`.
fn level(text: &[u8]) -> Option<ArenaMessage> {
    let (chunks, rest) = number(text)?;
    let (base, _, rest) = chunk(rest)?;
    Some(ArenaMessage::Level { chunks, base, used: number(after(rest, b"used: ")?)?.0 })
}

fn chunk_manager(text: &[u8]) -> Option<Message<'_>> {
    let (_, rest) = address(text)?;
    let rest = rest.strip_prefix(b" (")?;
    let class = rest.starts_with(b"class-space)");
    let rest = after(rest, b"): ")?;
    let rest = rest.strip_prefix(b": ").unwrap_or(rest);
    if let Some(rest) = rest.strip_prefix(b"requested chunk: pref_level: lv") {
        let (level, rest) = number(rest)?;
        let (max_level, _) = number(rest.strip_prefix(b", max_level: lv")?)?;
        return Some(Message::ChunkRequest {
            level: level.min(99) as u8,
            max_level: max_level.min(99) as u8,
        });
    }
    if let Some(rest) = rest.strip_prefix(b"handing out chunk @") {
        let (base, level, _) = chunk(rest)?;
        return Some(Message::ChunkOut { base, level });
    }
    if let Some(rest) = rest.strip_prefix(b"returning chunk @") {
        let (base, level, _) = chunk(rest)?;
        // A chunk that could not be committed goes back as it came, free ("f"): nobody had it.
        let in_use = after(rest, b", ")?.starts_with(b"u");
        return Some(if in_use {
            Message::ChunkBack { base, level }
        } else {
            Message::ChunkRefused { base, level }
        });
    }
    if rest.starts_with(b"allocated new root chunk") {
        return Some(Message::RootSpace { class });
    }
    // Both spaces are purged together: one of the two lines is enough.
    Some(if rest.starts_with(b"reclaiming memory") && !class {
        Message::Purge
    } else {
        Message::Other
    })
}

fn node(text: &[u8]) -> Option<Message<'_>> {
    let (base, rest) = address(after(text, b" base ")?)?;
    let rest = after(rest, b": ")?;
    if let Some(rest) = rest.strip_prefix(b"committing range ") {
        let (from, to) = range(rest)?;
        return Some(Message::Committing { from, to });
    }
    if let Some(rest) = rest.strip_prefix(b"... committed ") {
        return Some(Message::Committed { words: number(rest)?.0 });
    }
    if rest.starts_with(b"... already fully committed") {
        return Some(Message::Committed { words: 0 });
    }
    if rest.starts_with(b"... cannot commit") {
        return Some(Message::CommitRefused);
    }
    if let Some(rest) = rest.strip_prefix(b"uncommitting range ") {
        let (from, to) = range(rest)?;
        return Some(Message::Uncommitting { from, to });
    }
    if let Some(rest) = rest.strip_prefix(b"... uncommitted ") {
        return Some(Message::Uncommitted { words: number(rest)?.0 });
    }
    if let Some(rest) = rest.strip_prefix(b"new root chunk @") {
        return Some(Message::Root { base: chunk(rest)?.0 });
    }
    if let Some(rest) = rest.strip_prefix(b"born (word_size ") {
        return Some(Message::Node { base, words: number(rest)?.0 });
    }
    Some(Message::Other)
}

/// `0x7f.., u, base 0x7f.., level lv12 ...`: its base, its level and the rest.
fn chunk(text: &[u8]) -> Option<(u64, u8, &[u8])> {
    let (base, rest) = address(after(text, b" base ")?)?;
    let (level, rest) = number(rest.strip_prefix(b", level lv")?)?;
    Some((base, level.min(99) as u8, rest))
}

/// `@0x7f.. word size 12`: the address, the words, and the rest.
fn block(text: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (at, rest) = address(text.strip_prefix(b"@")?)?;
    let (words, rest) = number(rest.strip_prefix(b" word size ")?)?;
    Some((at, words, rest))
}

/// `0x1000..0x2000(512 words)`.
fn range(text: &[u8]) -> Option<(u64, u64)> {
    let (from, rest) = address(text)?;
    let (to, _) = address(rest.strip_prefix(b"..")?)?;
    (from <= to).then_some((from, to))
}

fn address(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.strip_prefix(b"0x")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(digits.len());
    Some((hexadecimal(&digits[..end]).filter(|_| end > 0)?, &digits[end..]))
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    Some((decimal(&text[..end])?, &text[end..]))
}

/// The text after the first `mark`.
fn after<'a>(text: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    memchr::memmem::find(text, mark).map(|at| &text[at + mark.len()..])
}
