//! Heap snapshots (`.heapsnapshot`): read, analyse and compare them as Chrome DevTools does, at any
//! size; write and check them. No I/O here: bytes in (a mapped file is best), answers out.
//!
//! For tools that ask questions about heap snapshots, in a terminal, in CI, in a notebook.
//! Constraints: the answers are DevTools' answers, class by class and object by object; time and
//! memory stay near the cost of touching the data; a file is untrusted. Limits: 2^32 - 2 nodes and
//! as many edges; ids below 2^32 (V8's and DevTools' own); strings and files as large as memory can
//! map.
//!
//! ```
//! use heaplab_snapshot::Snapshot;
//! let file = br#"{"snapshot":{"meta":{"node_fields":["type","name","id","self_size","edge_count"],
//!     "node_types":[["synthetic","object"],"string","number","number","number"],
//!     "edge_fields":["type","name_or_index","to_node"],"edge_types":[["property"],"string_or_number","node"]},
//!     "node_count":2,"edge_count":1},
//!     "nodes":[0,0,1,0,1, 1,1,3,16,0],"edges":[0,2,5],"strings":["(root)","Session","session"]}"#;
//! let snapshot = Snapshot::read(file)?;
//! let edge = snapshot.graph.edges(snapshot.graph.root()).start;
//! let target = snapshot.graph.target(edge);
//! assert_eq!(snapshot.strings.text(snapshot.graph.edge_name(edge)), "session");
//! assert_eq!(snapshot.strings.text(snapshot.graph.node_name(target)), "Session");
//! # Ok::<(), heaplab_snapshot::ReadError>(())
//! ```

pub mod analysis;
mod columns;
pub mod diff;
mod error;
pub mod generate;
pub mod graph;
pub mod growth;
pub mod index;
pub mod leaks;
mod meta;
pub mod names;
#[cfg(feature = "packed")]
pub mod packed;
mod phase;
pub mod query;
mod reader;
pub mod rewrite;
pub mod rows;
pub mod scripts;
pub mod series;
pub mod session;
pub mod shortest_paths;
mod snapshot;
pub mod strings;
pub mod summary;
pub mod validate;
pub mod write;

pub use error::ReadError;
pub use graph::{Edge, Graph, Node, Retainers};
pub use meta::{EdgeType, Header, Meta, NodeType};
pub use phase::OnPhase;
pub use reader::{Instructions, ReadOptions};
pub use snapshot::{Location, Sample, Snapshot, TraceFunction, TraceNode, Traces};
pub use strings::{StringId, Strings};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
