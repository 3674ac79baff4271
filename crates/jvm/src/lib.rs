//! HotSpot's metaspace: a JVM's log and workloads as events, and the metaspace at any moment of the
//! recording, as `jcmd VM.metaspace` prints it.
//!
//! For readers who ask why a JVM's metaspace is so large. The input is a bundle recorded by
//! `heaplab record --jvm-metaspace` or imported from a JVM's log: blocks are its events, chunks its
//! table of chunks. From these [`shadow`] rebuilds the metaspace, and [`statistics`] counts it.
//!
//! ```
//! use heaplab_jvm::{At, import, report};
//! use heaplab_trace::import::ImportOptions;
//! use heaplab_trace::source::Slice;
//!
//! let log = "[1ns][1] Arena @0xa0 (non-class sm): : born.\n\
//!            [2ns][1] Arena @0xa0 (non-class sm): requested 100 words.\n\
//!            [3ns][1] VsListNode @0x1 base 0x4000000 : committing range 0x4000000..0x4010000(8192 words)\n\
//!            [4ns][1] VsListNode @0x1 base 0x4000000 : ... committed 8192 additional words.\n\
//!            [5ns][1] ChkMgr @0x2 (non-class-space): handing out chunk @0x3, u, base 0x4000000, level lv12.\n\
//!            [6ns][1] Arena @0xa0 (non-class sm): returning 0x4000000.\n\
//!            [7ns][1] Metaspace::allocate: type 10 return 0x4000000.\n";
//! let mut events = Vec::new();
//! let imported = import(log.as_bytes(), None, &ImportOptions::default(), &mut events)?;
//! let report = report(&imported.tables, &mut Slice(&events), 0, At::End)?;
//! assert_eq!(report.statistics.in_use().used_bytes, 800);
//! assert_eq!(report.statistics.committed_bytes(), 65536);
//! # Ok::<(), heaplab_trace::TraceError>(())
//! ```

#![forbid(unsafe_code)]

pub mod asked;
mod chunk_op;
pub mod display;
pub mod granules;
mod import;
pub mod log;
mod reclaim;
mod report;
mod requests;
pub mod shadow;
pub mod statistics;
pub mod workload;

pub use chunk_op::ChunkOp;
pub use import::{Format, FormatName, import};
pub use reclaim::Reclaim;
pub use report::{At, Point, Report, has_chunks, is_metaspace, jvms, report, reports, shadow_at};
pub use requests::Requests;
pub use statistics::Statistics;
