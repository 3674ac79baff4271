//! A JVM's own log of its metaspace: `java
//! -Xlog:metaspace*=trace:file=F:uptimenanos,tid:filecount=0`, JDK 17 to 25.
//!
//! The log has every action of the metaspace: births and deaths of arenas, every request with its
//! words, its address and the type of the metadata, blocks given back early, and the chunks
//! underneath: taken, given back, enlarged, committed and uncommitted. Requests become events;
//! chunks become the table `chunks`, which gives the state of the real metaspace at any row
//! ([`crate::report`]). The log lacks a loader's kind (which follows from its first chunks,
//! `kind`) and the names of classes.
//!
//! Lines of different threads interleave, so related lines are matched by thread. A block's event
//! stands where the JVM got the block (`Metaspace::allocate: type T return P`), because only this
//! line has its type.
//!
//! A contradiction in the log ends the import there: earlier lines stay, and `meta.cut` says where
//! and why. With `lenient` such lines are dropped and counted instead, as is an incomplete last
//! line, and an arena without a birth counts as born at its first line.

mod kind;
mod message;
mod state;
#[cfg(test)]
mod tests;

pub use state::{Counts, Importer};
pub(crate) use state::{type_name, type_number};

use heaplab_trace::import::lines::Lines;
use heaplab_trace::import::{ImportOptions, Imported};
use heaplab_trace::{EventSink, TraceError};
use std::io::BufRead;

/// Imports the log.
pub fn import<R: BufRead, S: EventSink>(
    lines: &mut Lines<R>,
    options: &ImportOptions,
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
            // Failing to write the output is not the log's fault.
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
