//! Profiles in the formats of other tools: pprof, speedscope, Firefox Profiler, DHAT, collapsed
//! stacks; and the live blocks as a heap snapshot.
//!
//! For users of existing viewers. Each format holds the same two facts about each call stack: its
//! *allocated* bytes (requests, births and reallocations alike, over the whole run) and its bytes
//! *in use* at one [`InUseAt`]. Their sums are exactly the profile's totals in every format; a
//! number beyond a format's range is an error and never rounded.
//!
//! Names stay unchanged if the format allows (JSON and protobuf escape by themselves); collapsed
//! stacks do not (see [`Format::Collapsed`]). A nameless frame appears as module + offset, and
//! bytes without a stack as `(no stack recorded)`: nothing drops out of a sum.
//!
//! A [`HeapSnapshot`] is no profile: it has each live block of a moment, held by its call stack. A
//! [`MetaspaceSnapshot`] is the same for a JVM's metaspace: loaders, arenas, chunks, blocks.
//!
//! # Example
//! ```
//! use heaplab_export::{About, Detail, Export, Format, InUseAt, Weight};
//! use heaplab_profile::{ProfileOptions, profile};
//! use heaplab_trace::{Event, Op, source::Slice, tables::Tables};
//!
//! let tables = Tables::default();
//! let events = [Event { op: Op::Alloc, size: 100, ..Event::default() }];
//! let mut detail = Detail::new(false);
//! let profile = profile(&tables, &mut Slice(&events), &ProfileOptions::default(), &mut detail)?;
//! let export = Export { tables: &tables, profile: &profile, detail: &detail, moment: InUseAt::End, about: About::default() };
//! let mut text = Vec::new();
//! export.write(Format::Collapsed(Weight::InUseBytes), &mut text)?;
//! assert_eq!(text, b"(no stack recorded) 100\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod collapsed;
mod detail;
mod dhat;
mod error;
mod file_format;
mod firefox;
mod heap_snapshot;
mod live;
mod metaspace_trace;
mod pprof;
mod pprof_messages;
mod source;
mod speedscope;
mod stacks;

pub use detail::Detail;
pub use error::ExportError;
pub use file_format::{Asked, FileFormat};
pub use heap_snapshot::{HeapAtMoment, HeapSnapshot, MetaspaceSnapshot, WalkedHeap, Written};
pub use live::{LiveBlock, LiveBlocks};
pub use metaspace_trace::write_metaspace_trace;
pub use source::Source;

use heaplab_profile::Profile;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::tables::Tables;
use std::io::Write;

/// The input of an export.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    /// Stacks, frames and modules.
    pub tables: &'a Tables,
    /// One pass over the events ...
    pub profile: &'a Profile,
    /// ... and its details: lifetimes by stack, and when stacks allocated.
    pub detail: &'a Detail,
    /// The moment of "in use".
    pub moment: InUseAt,
    /// The profile's subject.
    pub about: About,
}

/// The subject of a profile, for titles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The recorded command.
    pub program: String,
    /// Its process; 0: several, or unknown.
    pub pid: u32,
    /// Start of the recording, seconds since 1970 UTC; 0: unknown.
    pub began_unix_s: u64,
}

impl About {
    /// The process's own command, or the recording's if all processes are shown.
    pub fn of(bundle: &Bundle, selection: Selection) -> About {
        let processes = &bundle.tables().processes;
        let only = selection.process.or(if processes.len() == 1 { Some(0) } else { None });
        let process = only.and_then(|row| processes.get(row as usize));
        let command = process
            .map(|process| process.arguments.join(" "))
            .filter(|command| !command.is_empty());
        About {
            program: command.unwrap_or_else(|| bundle.meta().program.clone()),
            pid: process.map_or(0, |process| process.pid),
            began_unix_s: bundle.meta().began_unix_s,
        }
    }
}

/// The moment of memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUseAt {
    /// The largest live requested bytes.
    Peak,
    /// After the last event.
    End,
    /// This row of [`Profile::moments`].
    Asked(usize),
}

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pprof's protobuf, compressed with gzip, with the four sample types of a Go heap profile.
    Pprof,
    /// JSON of <https://www.speedscope.app>: in use and allocated, by bytes and by objects.
    Speedscope,
    /// One line a stack, outermost frame first, separated by `;`, then a space and the weight.
    /// Flame graph scripts read this. The format has no escapes: `;` in a name becomes `:`, control
    /// characters become spaces.
    Collapsed(Weight),
    /// JSON of <https://profiler.firefox.com>: allocations over time (for retained memory at any
    /// range), in use at the moment, live bytes as a graph.
    Firefox,
    /// JSON of valgrind's DHAT viewer, mode "heap". It has both peak and end, and no other moment.
    Dhat,
}

/// The number shown by a format with room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Weight {
    /// Bytes in use at the moment.
    #[default]
    InUseBytes,
    /// Objects in use at the moment.
    InUseObjects,
    /// Bytes of all requests.
    AllocatedBytes,
    /// All requests.
    AllocatedObjects,
}

impl Export<'_> {
    /// Writes the profile as `format`.
    ///
    /// # Errors
    /// `out` fails, a number does not fit into the format, or the format cannot show the moment.
    pub fn write(&self, format: Format, out: &mut impl Write) -> Result<(), ExportError> {
        match format {
            Format::Pprof => pprof::write(self, out),
            Format::Speedscope => speedscope::write(self, out),
            Format::Collapsed(weight) => collapsed::write(self, weight, out),
            Format::Firefox => firefox::write(self, out),
            Format::Dhat => dhat::write(self, out),
        }
    }

    /// The moment in words: "peak", "end", or its requested name.
    fn moment_name(&self) -> &str {
        match self.moment {
            InUseAt::Peak => "peak",
            InUseAt::End => "end",
            InUseAt::Asked(row) => self
                .profile
                .moments
                .get(row)
                .map_or("a moment that was not asked for", |moment| &moment.name),
        }
    }

    /// The moment's place on the clock of the detail.
    fn moment_at(&self) -> u64 {
        let moment = match self.moment {
            InUseAt::Peak => Some(&self.profile.peak),
            InUseAt::End => Some(&self.profile.end),
            InUseAt::Asked(row) => self.profile.moments.get(row),
        };
        moment.map_or(0, |moment| if self.detail.is_timed() { moment.time_ns } else { moment.row })
    }
}
