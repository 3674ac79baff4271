//! Heap snapshots of a live Node or Chromium, streamed to disk over its debugging protocol.
//!
//! For programs that must get a snapshot out of a process with little memory left. V8 sends a
//! snapshot in chunks of text. Each chunk goes to disk at once, so heaplab stays small for a
//! snapshot of any size. If the target dies, the received part stays as `NAME.part`. Only a
//! complete file gets the name itself.
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
mod dialogs;
mod endpoint;
mod error;
mod http;
mod node;
pub mod outcome;
pub mod own_files;
mod process;
mod protocol;
pub mod scenario;
mod steps;
pub mod take;
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
    /// Longest wait for a connection, for an inspector to start listening, and for its list of
    /// targets.
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
