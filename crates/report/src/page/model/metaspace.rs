//! The page's part about a JVM's metaspace, for a recording of one.

use serde::Serialize;

/// A JVM's metaspace at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metaspace {
    /// "JVM 4711: java -jar app.jar"; empty where the page is about one.
    pub jvm: String,
    /// The moment: "At the end".
    pub moment: String,
    /// Committed then.
    pub committed_bytes: u64,
    /// Used in chunks then.
    pub used_bytes: u64,
    /// Free chunks in committed granules then.
    pub free_chunks_bytes: u64,
    /// The most that was committed.
    pub peak_bytes: u64,
    /// When, ns; `committed` and `used` are parallel.
    pub time_ns: Vec<u64>,
    /// Committed from then on.
    pub committed: Vec<u64>,
    /// Used from then on.
    pub used: Vec<u64>,
    /// The holdings by kind of loader.
    pub kinds: Vec<MetaspaceKind>,
    /// Where it goes unused.
    pub findings: Vec<super::Finding>,
    /// The lines of `jcmd VM.metaspace`.
    pub text: String,
}

/// The holdings of one kind of loader in one of the two spaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MetaspaceKind {
    /// "standard, non-class".
    pub name: String,
    /// Live arenas.
    pub arenas: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Requested bytes of live blocks.
    pub requested_bytes: u64,
    /// Up to where blocks were given.
    pub used_bytes: u64,
    /// The rest of current chunks.
    pub free_bytes: u64,
    /// The rest of retired chunks.
    pub waste_bytes: u64,
    /// Committed.
    pub committed_bytes: u64,
}
