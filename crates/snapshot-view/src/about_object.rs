//! What is said of one object.

use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};
use std::fmt;

/// What a command has to say of an object, behind what every one says.
pub trait Says {
    /// The members of the JSON.
    fn json(&self, analysis: &Analysis, node: Node) -> Map<String, Value>;
    /// Members of the JSON that are too large to be made before they are written: behind the
    /// others.
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
