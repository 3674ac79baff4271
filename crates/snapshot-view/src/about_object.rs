//! An answer about one object.

use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};
use std::fmt;

/// A command's own part of an answer, behind the part common to all commands.
pub trait ObjectSection {
    /// The members of the JSON.
    fn json(&self, analysis: &Analysis, node: Node) -> Map<String, Value>;
    /// Large members of the JSON, streamed behind the others rather than built in memory.
    ///
    /// # Errors
    /// The map cannot be written.
    fn stream<M: SerializeMap>(&self, _: &Analysis, _: Node, _: &mut M) -> Result<(), M::Error> {
        Ok(())
    }
    /// The lines of the text.
    ///
    /// # Errors
    /// `out` cannot be written.
    fn text(
        &self,
        analysis: &Analysis,
        node: Node,
        columns: usize,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result;
}
