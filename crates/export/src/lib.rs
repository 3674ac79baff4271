//! Profiles in the formats of other tools: pprof, speedscope, Firefox Profiler, DHAT, collapsed
//! stacks; and the live blocks as a heap snapshot.
//!
//! For whoever has a viewer already. Each format holds the same two facts about each call stack:
//! what it *allocated* (requests, births and reallocations alike, over the whole run) and what it
//! had *in use* at one [`Moment`]. Their sums are the profile's totals, exactly, in every format; a
//! number that a format cannot hold is an error and never rounded.
//!
//! Names are written as they are where the format can (JSON and protobuf escape by themselves);
//! collapsed stacks cannot (see [`Format::Collapsed`]). A frame without a name is shown as module +
//! offset, and bytes without a stack as `(no stack recorded)`, so that nothing drops out of a sum.
//!
//! A [`HeapSnapshot`] is no profile: it has each block that is live at a moment, held by its call
//! stack. A [`MetaspaceSnapshot`] is one of a JVM's metaspace: loaders, arenas, chunks, blocks.
//!
//! # Example
//! ```
//! use heaplab_export::{About, Detail, Export, Format, Moment, Weight};
//! use heaplab_profile::{Options, profile};
//! use heaplab_trace::{Event, Op, source::Slice, tables::Tables};
//!
//! let tables = Tables::default();
//! let events = [Event { op: Op::Alloc, size: 100, ..Event::default() }];
//! let mut detail = Detail::new(false);
//! let profile = profile(&tables, &mut Slice(&events), &Options::default(), &mut detail)?;
//! let export = Export { tables: &tables, profile: &profile, detail: &detail, moment: Moment::End, about: About::default() };
//! let mut text = Vec::new();
//! export.write(Format::Collapsed(Weight::InUseBytes), &mut text)?;
//! assert_eq!(text, b"(no stack recorded) 100\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collapsed;
mod detail;
mod dhat;
mod error;
mod firefox;
mod heap_snapshot;
mod live;
mod pprof;
mod pprof_messages;
mod speedscope;
mod stacks;

pub use detail::Detail;
pub use error::ExportError;
pub use heap_snapshot::{HeapSnapshot, MetaspaceSnapshot, StandingHeap, Written};
pub use live::{LiveBlock, LiveBlocks};

use heaplab_profile::Profile;
use heaplab_trace::tables::Tables;
use std::io::Write;

/// What an export is made from.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    /// Stacks, frames and modules.
    pub tables: &'a Tables,
    /// One pass over the events ...
    pub profile: &'a Profile,
    /// ... and what it saw besides: lifetimes by stack, and when stacks allocated.
    pub detail: &'a Detail,
    /// When "in use" is.
    pub moment: Moment,
    /// What the profile is of.
    pub about: About,
}

/// What a profile is of, for titles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The command that was recorded.
    pub program: String,
    /// Its process; 0: several, or not known.
    pub pid: u32,
    /// When the recording began, seconds since 1970 UTC; 0: not known.
    pub began_unix_s: u64,
}

/// The moment at which memory is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When the most requested bytes were live.
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
    /// One line a stack, outermost frame first, separated by `;`, then a space and the weight. What
    /// flame graph scripts read. The format has no escapes: `;` in a name becomes `:`, control
    /// characters become spaces.
    Collapsed(Weight),
    /// JSON of <https://profiler.firefox.com>: allocations over time (for retained memory at any
    /// range), in use at the moment, live bytes as a graph.
    Firefox,
    /// JSON of valgrind's DHAT viewer, mode "heap". It has peak and end both, and no other moment.
    Dhat,
}

/// Which of the numbers a format with room for one shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
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

    /// The moment in words: "peak", "end", or as it was asked for.
    fn moment_name(&self) -> &str {
        match self.moment {
            Moment::Peak => "peak",
            Moment::End => "end",
            Moment::Asked(row) => self
                .profile
                .moments
                .get(row)
                .map_or("a moment that was not asked for", |moment| &moment.name),
        }
    }

    /// The moment's place on the clock of the detail.
    fn moment_at(&self) -> u64 {
        let moment = match self.moment {
            Moment::Peak => Some(&self.profile.peak),
            Moment::End => Some(&self.profile.end),
            Moment::Asked(row) => self.profile.moments.get(row),
        };
        moment.map_or(0, |moment| if self.detail.is_timed() { moment.time_ns } else { moment.row })
    }
}
