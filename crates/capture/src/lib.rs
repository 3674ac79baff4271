//! Heap snapshots of a live Node or Chromium, streamed to disk over its debugging protocol.
//!
//! For whom: a program that must get a snapshot out of a process that has little memory left. V8
//! hands a snapshot out in chunks of text; here each goes to disk as it arrives, so that this side
//! stays small whatever the size, and what arrived before the target died is kept under a name of
//! its own (`NAME.part`). The file has its own name only when it is complete.
//!
//! No general DevTools client: one connection, no TLS, one command at a time. Messages and waits
//! are bounded (a message by [`MESSAGE_BYTES_LIMIT`], silence by [`Options::silence`]).
//!
//! Source: RFC 6455 (WebSocket), the DevTools protocol's HeapProfiler, Runtime and Target domains,
//! Node's NodeWorker domain and `SIGUSR1`.
//!
//! ```no_run
//! use heaplab_capture::{Connection, Endpoint, Options, take};
//! let options = Options::default();
//! let endpoint = Endpoint::of_process(4711, &options)?;
//! let mut connection = Connection::open(&endpoint, &options)?;
//! let taken = take::take(&mut connection, "a.heapsnapshot".as_ref(), take::Request::default(), &mut |progress| eprintln!("{progress:?}"))?;
//! println!("{} bytes", taken.bytes);
//! # Ok::<(), heaplab_capture::CaptureError>(())
//! ```

mod address;
mod browser;
mod endpoint;
mod error;
mod http;
mod node;
pub mod own_files;
mod process;
mod protocol;
pub mod scenario;
mod steps;
pub mod take;
pub mod told;
pub mod watch;
mod websocket;
pub mod workers;

pub use address::Address;
pub use browser::Browser;
pub use endpoint::{Endpoint, Page};
pub use error::CaptureError;
pub use protocol::Connection;
pub use websocket::MESSAGE_BYTES_LIMIT;

use std::time::Duration;

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// To be connected to, for an inspector to begin to listen, and for it to say what it has.
    pub connect: Duration,
    /// Without any message while an answer is due. V8 reports its progress while it walks the heap,
    /// but not while it collects garbage first.
    pub silence: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { connect: Duration::from_secs(10), silence: Duration::from_secs(300) }
    }
}
