//! An answer about one object.

use crate::rows::{heading, node_json};
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};
use std::fmt::{self, Write as _};
use std::io::{self, Write};

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

/// Writes an answer as JSON of this `format`.
///
/// # Errors
/// `out` cannot be written.
pub fn write_json(
    analysis: &Analysis,
    node: Node,
    format: &str,
    section: &impl ObjectSection,
    mut out: &mut dyn Write,
) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::new(&mut out);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("format", format)?;
    map.serialize_entry("version", &1)?;
    map.serialize_entry("object", &node_json(analysis, node))?;
    for (name, value) in section.json(analysis, node) {
        map.serialize_entry(&name, &value)?;
    }
    section.stream(analysis, node, &mut map)?;
    map.end()?;
    writeln!(out)
}

/// Writes an answer as text.
///
/// # Errors
/// `out` cannot be written.
pub fn write_text(
    analysis: &Analysis,
    node: Node,
    columns: usize,
    section: &impl ObjectSection,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut text = Text { out, failure: None };
    let _ = write!(text, "{}", heading(analysis, node, columns))
        .and_then(|()| section.text(analysis, node, columns, &mut text));
    text.failure.map_or(Ok(()), Err)
}

/// Text for a writer of bytes. It keeps the writer's error, which [`fmt::Error`] has no room for.
struct Text<'o> {
    out: &'o mut dyn Write,
    failure: Option<io::Error>,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|failure| {
            self.failure = Some(failure);
            fmt::Error
        })
    }
}
