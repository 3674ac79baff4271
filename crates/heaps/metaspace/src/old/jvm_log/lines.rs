//! The relevant lines of a log, and the kind of each returned block.

use super::super::facts::WORD;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A relevant line of the log.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    /// The next line tells the place of the node with this object.
    NodeIs(usize),
    NodeAt {
        base: usize,
        end: usize,
    },
    ClassSpace {
        base: usize,
    },
    Birth(usize),
    Grow {
        words: usize,
        used: usize,
        left: usize,
    },
    Added {
        base: usize,
        end: usize,
    },
    /// A block comes to an arena's free blocks; becomes one of the next three, or nothing.
    Block {
        base: usize,
        words: usize,
    },
    /// The rest of a chunk that another replaces.
    Retired {
        base: usize,
    },
    /// The program gives a block back; `fresh`: a bumped one, not one from free blocks.
    GivenBack {
        base: usize,
        words: usize,
        fresh: bool,
    },
    /// Free blocks serve a request.
    Reused {
        base: usize,
        words: usize,
    },
    Death(usize),
    Returned(usize),
    Unmapped(usize),
}

pub(super) struct Record {
    /// Line of the file, counted from 1.
    pub number: usize,
    pub time_ns: u64,
    pub thread: u64,
    pub line: Line,
}

/// The hexadecimal numbers of a text, in order.
fn addresses(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.split("0x").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        usize::from_str_radix(&rest[..end], 16).ok()
    })
}

/// A number of words; no metaspace has a larger one.
fn count(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|words| *words < 1 << 32)
}

/// The number before `unit`.
fn before(text: &str, unit: &str) -> Option<usize> {
    text.split(unit).next()?.split_ascii_whitespace().next_back().and_then(count)
}

fn line(text: &str) -> Option<Line> {
    let mut found = addresses(text);
    let mut next = || found.next();
    if let Some(rest) = text.strip_prefix("SpaceManager::grow_and_allocate for ") {
        let (words, rest) = rest.split_once(" words ")?;
        return Some(Line::Grow {
            words: count(words)?,
            used: before(rest, " words used")?,
            left: before(rest, " words left")?,
        });
    }
    if text.starts_with("SpaceManager(): ") {
        return next().map(Line::Birth);
    }
    if text.starts_with("~SpaceManager(): ") {
        return next().map(Line::Death);
    }
    if text.starts_with("Metachunk: bottom ") {
        let (base, _, end) = (next()?, next()?, next()?);
        return Some(Line::Added { base, end });
    }
    if text.starts_with("returning block at ") {
        return Some(Line::Block { base: next()?, words: count(text.rsplit_once("size = ")?.1)? });
    }
    if text.starts_with("getting block at ") {
        return Some(Line::Reused { base: next()?, words: count(text.rsplit_once("size = ")?.1)? });
    }
    if text.starts_with("returned one ") {
        return next().map(Line::Returned);
    }
    if text.starts_with("Purging VirtualSpaceNode ") {
        return next().map(Line::Unmapped);
    }
    if text.starts_with("node @") {
        return next().map(Line::NodeIs);
    }
    if text.starts_with("Compressed class space size: ") {
        return next().map(|base| Line::ClassSpace { base });
    }
    if text.starts_with("   [0x") {
        let (base, _, _, end) = (next()?, next()?, next()?, next()?);
        return Some(Line::NodeAt { base, end });
    }
    None
}

/// The records of a log. Skips irrelevant and foreign lines.
pub(super) fn records(log: &str) -> Vec<Record> {
    let decorated = |(index, text): (usize, &str)| {
        let (time, rest) = text.strip_prefix('[')?.split_once("ns][")?;
        let (thread, rest) = rest.split_once(']')?;
        let text = rest.strip_prefix(' ')?;
        let text = if text.starts_with("GC(") { text.split_once(") ")?.1 } else { text };
        Some(Record {
            number: index + 1,
            time_ns: time.parse().ok()?,
            thread: thread.trim().parse().ok()?,
            line: line(text)?,
        })
    };
    classified(log.lines().enumerate().filter_map(decorated).collect())
}

/// Classifies each returned block: the log prints the same line for the rest of a retired chunk,
/// for the rest of a block that served a request, for a block that was too large and is put back,
/// and for one that the program gives back.
fn classified(records: Vec<Record>) -> Vec<Record> {
    let mut last: HashMap<u64, usize> = HashMap::new();
    let mut rests = HashSet::new();
    for (index, record) in records.iter().enumerate() {
        if let (Line::Reused { base, words }, Some(before)) =
            (record.line, last.insert(record.thread, index))
            && matches!(records[before].line, Line::Block { base: rest, .. } if rest == base.wrapping_add(words * WORD))
        {
            rests.insert(before);
        }
    }
    let mut free: BTreeMap<usize, usize> = BTreeMap::new();
    let mut reused: BTreeMap<usize, usize> = BTreeMap::new();
    let mut growing: HashSet<u64> = HashSet::new();
    let mut kept = Vec::with_capacity(records.len());
    for (index, mut record) in records.into_iter().enumerate() {
        match record.line {
            Line::Grow { .. } => {
                growing.insert(record.thread);
            }
            Line::Added { base, end } => {
                growing.remove(&record.thread);
                for blocks in [&mut free, &mut reused] {
                    blocks.retain(|address, _| !(base..end).contains(address));
                }
            }
            Line::Reused { base, words } => {
                free.remove(&base);
                reused.insert(base, words);
            }
            Line::Block { base, words } => {
                let known = free.insert(base, words);
                if rests.contains(&index)
                    || !growing.contains(&record.thread) && known == Some(words)
                {
                    continue;
                }
                record.line = match growing.contains(&record.thread) {
                    true => Line::Retired { base },
                    false => Line::GivenBack { base, words, fresh: reused.remove(&base).is_none() },
                };
            }
            _ => {}
        }
        kept.push(record);
    }
    kept
}
