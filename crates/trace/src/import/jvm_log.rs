//! A JVM's own log of its metaspace: `java
//! -Xlog:metaspace*=trace:file=F:uptimenanos,tid:filecount=0`, JDK 17 to 25.
//!
//! Everything that the metaspace does is in it: arenas that are born and die, every request with
//! its words, its address and the type of the metadata, blocks given back early, and the chunks
//! underneath: what is taken, given back, enlarged, committed and uncommitted. Requests become
//! events, chunks the table `chunks`, from which the state of the real metaspace at any row can be
//! told (crates/metaspace-report). Not in it: whose a loader is (its kind follows from its first
//! chunks, `kind`), and names of classes.
//!
//! Lines of different threads interleave, so what belongs together is found by thread. A block's
//! event stands where the JVM got it (`Metaspace::allocate: type T return P`), since only there its
//! type is known.
//!
//! A log that contradicts itself ends the import there: what was read stays, and `meta.cut` says
//! where and why. With `lenient` such lines are dropped and counted instead, as is a last one that
//! breaks off, and an arena whose birth is missing is taken as born when it is first seen.

mod kind;
mod message;
mod state;
#[cfg(test)]
mod tests;

pub use state::{Counts, Importer, NamedMoment};
pub(super) use state::{type_name, type_number};

use super::lines::Lines;
use super::{Imported, Options};
use crate::{EventSink, TraceError};
use std::io::BufRead;

/// Imports.
pub fn import<R: BufRead, S: EventSink>(
    lines: &mut Lines<R>,
    options: &Options,
    sink: &mut S,
) -> Result<Imported, TraceError> {
    let mut importer = Importer::new(options);
    loop {
        let read = match lines.advance() {
            Ok(true) => {
                importer.line(lines.line().number(), lines.line().whole(), lines.is_whole(), sink)
            }
            Ok(false) => break,
            Err(error) => Err(error),
        };
        match read {
            Ok(()) => {}
            // What cannot be written is no matter of the log.
            Err(TraceError::Io { path, action, source }) if path != options.name => {
                return Err(TraceError::Io { path, action, source });
            }
            Err(error) => {
                importer.cut(error, sink)?;
                break;
            }
        }
    }
    importer.finish(sink)
}
