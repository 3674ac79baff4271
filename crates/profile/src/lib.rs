//! What one pass over a workload gives: live bytes over time, by size, by stack and by thread, the
//! peak, chosen moments and lifetimes.
//!
//! For whoever shows, exports or judges a recording. [`profile`] streams: its memory is that of the
//! live objects, the distinct stacks and the distinct sizes, however many events there are. It
//! looks at one selection of events (one process, usually) exactly once, and lets an [`Observer`]
//! look over its shoulder, so that the findings need no pass of their own.
//!
//! # The peak in one pass
//! The peak is the first row at which the sum of the requested bytes of live objects is largest.
//! What each stack and size held at that row is wanted, and the row is known only at the end.
//! Instead of a second pass, every counter remembers the peak it last saw ([`Tracked`]): a new peak
//! only raises a number, and a counter copies itself when it is next changed after that. The copy
//! is exact and costs one compare an event.
//!
//! # To whom bytes belong
//! A live object's bytes belong to the stack that last sized it: after a realloc that is the stack
//! of the realloc. Requests are births and reallocations alike, because each is a question to the
//! allocator and has its own slop.
//!
//! ```
//! use heaplab_profile::{NoObserver, Options, profile};
//! use heaplab_trace::{Event, Op, source::Slice, tables::Tables};
//!
//! let birth = |object, size| Event { op: Op::Alloc, object, size, ..Event::default() };
//! let death = |object| Event { op: Op::Free, object, ..Event::default() };
//! let events = [birth(0, 100), birth(1, 50), death(0), birth(2, 20)];
//! let profile = profile(&Tables::default(), &mut Slice(&events), &Options::default(), &mut NoObserver)?;
//! assert_eq!((profile.peak.row, profile.peak.live.bytes), (1, 150));
//! assert_eq!(profile.end.live.bytes, 70);
//! # Ok::<(), heaplab_trace::TraceError>(())
//! ```

mod live;
mod marks;
mod model;
mod moments;
mod observe;
mod options;
mod pass;
mod processes;
mod resident;
mod sizes;
mod stacks;
mod threads;
mod timeline;
mod tracked;

pub use model::{
    Amount, Lifetime, Lifetimes, MarkRow, Moment, MomentSize, MomentStack, Profile, SizeRow,
    StackRow, ThreadRow, Timeline, TimelineAxis, TimelinePoint, Totals,
};
pub use observe::{Instant, NoObserver, Object, Observer};
pub use options::{At, MomentRequest, Options, remapped_from_bytes};
pub use pass::profile;
pub use processes::{ProcessPeak, process_peaks};
pub use resident::{ResidentPeak, resident, resident_peak};
pub use tracked::Tracked;
