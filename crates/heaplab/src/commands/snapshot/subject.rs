//! What the commands about one object share: which object of which file, and how an answer begins.

use super::file::{self, Open, Reading};
use anyhow::Result;
use heaplab_snapshot::query::subject::Subject;
use heaplab_snapshot_view::ObjectSection;
use heaplab_snapshot_view::rows::{heading, node_json};
use heaplab_terminal as terminal;
use heaplab_terminal::output;
use serde::ser::{SerializeMap, Serializer};
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// One object of a file.
#[derive(Clone, Debug, clap::Args)]
pub struct OfObject {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An object such as @4711, or a class, for its largest object
    #[arg(value_name = "OBJECT")]
    subject: Subject,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

impl OfObject {
    /// Finds the object and prints what there is to say of it, as `format` where JSON is asked for.
    pub fn answer(
        &self,
        format: &str,
        open: Open,
        section: &impl ObjectSection,
    ) -> Result<ExitCode> {
        file::analysed(&self.file, &self.reading, open, |analysis| {
            let node = self.subject.node(analysis)?;
            let columns = terminal::columns();
            if self.json {
                output::printed(|out| {
                    let mut serializer = serde_json::Serializer::new(&mut *out);
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
                })?;
            } else {
                output::printed(|out| {
                    let mut text = Text { out, failure: None };
                    let _ = write!(text, "{}", heading(analysis, node, columns))
                        .and_then(|()| section.text(analysis, node, columns, &mut text));
                    text.failure.map_or(Ok(()), Err)
                })?;
            }
            Ok(())
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Text on its way out, which keeps why it could not get there.
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
