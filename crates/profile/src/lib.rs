//! One pass over a workload: live bytes over time, by size, by stack and by thread, the peak,
//! chosen moments and lifetimes.
//!
//! The basis of displays, exports and findings. [`profile`] streams: its memory grows with the live
//! objects, the distinct stacks and the distinct sizes, not with the number of events. It reads one
//! selection of events (one process, usually) exactly once, and shows each event to an
//! [`Observer`], so the findings need no pass of their own.
//!
//! # The peak in one pass
//! The peak is the first row with the largest sum of the live objects' requested bytes. The profile
//! needs the content of each stack and size at this row, but the row is known only at the end.
//! Instead of a second pass, every counter remembers the peak it last saw ([`Tracked`]): a new peak
//! only raises a number, and a counter copies itself at its next change after that. The copy is
//! exact and costs one compare an event.
//!
//! # The owner of bytes
//! A live object's bytes belong to the stack that last sized it: after a realloc, the stack of the
//! realloc. Requests are births and reallocations alike, because each is a request to the allocator
//! with its own slop.
//!
//! ```
//! use heaplab_profile::{Profile, ProfileOptions};
//! use heaplab_trace::{Event, Op, source::Slice, tables::Tables};
//!
//! let birth = |object, size| Event { op: Op::Alloc, object, size, ..Event::default() };
//! let death = |object| Event { op: Op::Free, object, ..Event::default() };
//! let events = [birth(0, 100), birth(1, 50), death(0), birth(2, 20)];
//! let profile = Profile::of(&Tables::default(), &mut Slice(&events), &ProfileOptions::default())?;
//! assert_eq!((profile.peak.row, profile.peak.live.bytes), (1, 150));
//! assert_eq!(profile.end.live.bytes, 70);
//! # Ok::<(), heaplab_trace::TraceError>(())
//! ```

#![forbid(unsafe_code)]

pub mod choose;
mod live;
mod marks;
mod model;
mod moments;
mod observe;
mod options;
mod parts;
mod pass;
mod processes;
mod ranges;
mod resident;
mod runtime_maps;
mod sizes;
mod stacks;
mod threads;
mod timeline;
mod tracked;

pub use model::{
    Amount, Lifetime, Lifetimes, MarkRow, Moment, MomentSize, MomentStack, Profile, SizeRow,
    StackRow, ThreadRow, Timeline, TimelineAxis, TimelinePoint, Totals,
};
pub use observe::{Instant, Object, Observer};
pub use options::{At, MomentRequest, ProfileOptions, remapped_from_bytes};
pub use parts::{KindsAt, NamedPart, ResidentParts, resident_kinds, resident_parts};
pub use pass::profile;
pub use processes::{ProcessPeak, process_peaks};
pub use ranges::{Lives, Ranges, SURVIVES, Site, SizeLives};
pub use resident::{ResidentPeak, resident, resident_peak};
pub use tracked::Tracked;
