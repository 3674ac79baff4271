//! From JDK 11's log of its metaspace to a [`recording`](super::recording).
//!
//! `java -Xlog:gc+metaspace*=trace:file=F:uptimenanos,tid:filecount=0` prints births and deaths of
//! arenas, every handed-out chunk with its address, the rest of every retired chunk, blocks given
//! back, and unmapped nodes. It does not print a chunk's arena. The arena follows from other lines:
//! a newborn arena's chunks come next in the same thread; a chunk that retires another belongs to
//! the same arena; a dying arena returns its chunks by address. If none of this tells (the current
//! chunk had less than three words left, and its arena is alive at the end), the importer takes the
//! undying arena of that thread that grew last and has a chunk of this size, and counts a guess.
//!
//! **Used bytes of a replay are fewer than the JVM's.** HotSpot 11 bumps through a chunk without a
//! line of log (`SpaceManager::allocate_work`). It prints the position only when the chunk is too
//! full for a request (`grow_and_allocate for N words, U words used L words left`), and prints
//! nothing about an arena's last chunk when the arena dies. So no log, of any tag, has the words
//! handed out in a chunk without a successor: all of the JVM's figures lie between the replayed
//! bytes and these plus the rests of current chunks. On Churn this is 14 to 18 % of the used bytes
//! after a drop, and 28 to 30 % while all 2000 loaders of a cycle live (1500 of them never fill
//! their first chunk); on Redefine 1 to 9 %. `tests/old_recorded.rs` checks every moment of every
//! recording against these limits (and prints them with `--nocapture`); committed bytes do not
//! depend on the missing words and must be equal.
//!
//! Reading takes two passes: one to learn the owner of each chunk and the blocks that will be given
//! back, one to write events.

mod lines;
mod owners;
mod writer;

#[cfg(test)]
mod tests;

use super::recording::{Event, Said};
use owners::Owners;
use writer::{Reading, Writer};

/// The text is no log, or not of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JvmLogError {
    /// No node of the class space was found at the log's beginning.
    #[error(
        "the log does not name a class space; record it from the start, with -Xlog:gc+metaspace*=trace and class pointers compressed"
    )]
    NoClassSpace,
    /// A line without its context.
    #[error("line {line}: {what}; is the log cut or rotated? record it with filecount=0")]
    Context {
        /// Counted from 1.
        line: usize,
        /// The missing part.
        what: &'static str,
    },
    /// A bad line of the program's report.
    #[error(
        "line {line} of the program's report: expected eight values separated by commas, found {found:?}"
    )]
    Report {
        /// Counted from 1.
        line: usize,
        /// The text found.
        found: String,
    },
}

/// The result for a log.
#[derive(Clone, Debug, Default)]
pub struct Converted {
    /// The recording.
    pub events: Vec<Event>,
    /// Chunks whose arena was guessed.
    pub guessed: usize,
    /// Chunks in all.
    pub chunks: usize,
}

/// The program's report, with each moment in nanoseconds.
fn report(csv: &str) -> Result<Vec<(u64, Said)>, JvmLogError> {
    let wrong = |index: usize, text: &str| JvmLogError::Report {
        line: index + 1,
        found: text.chars().take(80).collect(),
    };
    let said = |text: &str| {
        let fields: Vec<&str> = text.split(',').collect();
        let value = |at: usize| fields.get(at)?.trim().parse::<u64>().ok();
        let said = Said {
            step: fields[0].split_ascii_whitespace().collect::<Vec<_>>().join("-"),
            cycle: value(1)?,
            loaders: value(2)?,
            used_bytes: value(3)?,
            committed_bytes: value(4)?,
            class_used_bytes: value(5)?,
            class_committed_bytes: value(6)?,
        };
        // The time is cut to whole milliseconds, and the program read its figures after reading the
        // time.
        Some((value(7)?.checked_add(1)?.checked_mul(1_000_000)?, said))
    };
    csv.lines()
        .enumerate()
        .skip(1)
        .map(|(index, text)| said(text).ok_or_else(|| wrong(index, text)))
        .collect()
}

/// Converts a log and the program's report (CSV: step, cycle, loaders, used, committed, class_used,
/// class_committed, uptime_ms) into a recording.
pub fn convert(log: &str, reported: &str) -> Result<Converted, JvmLogError> {
    let records = lines::records(log);
    let mut reports = report(reported)?.into_iter().peekable();
    let owners = Owners::learn(&records)?;
    let mut writer = Writer::new(owners);
    let mut state = Reading::default();
    for record in &records {
        while let Some((_, said)) = reports.next_if(|(time_ns, _)| *time_ns < record.time_ns) {
            state.purge(&mut writer);
            writer.out.events.push(Event::Said(said));
        }
        state
            .step(&mut writer, record)
            .map_err(|what| JvmLogError::Context { line: record.number, what })?;
    }
    state.purge(&mut writer);
    writer.out.events.extend(reports.map(|(_, said)| Event::Said(said)));
    Ok(writer.out)
}
