//! What the commands about one object share: which object, and how an answer begins.

use super::file::{self, Open, Reading};
use anyhow::Result;
use heaplab_snapshot::query::subject::Subject;
use heaplab_snapshot_view::about_object::{ObjectSection, write_json, write_text};
use heaplab_terminal as terminal;
use heaplab_terminal::output;
use std::path::Path;
use std::process::ExitCode;

/// One object.
#[derive(Clone, Debug, clap::Args)]
pub struct OfObject {
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
        file: &Path,
        format: &str,
        open: Open,
        section: &impl ObjectSection,
    ) -> Result<ExitCode> {
        file::analysed(file, &self.reading, open, |analysis| {
            let node = self.subject.node(analysis)?;
            let columns = terminal::columns();
            if self.json {
                output::printed(|out| write_json(analysis, node, format, section, out))?;
            } else {
                output::printed(|out| write_text(analysis, node, columns, section, out))?;
            }
            Ok(())
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
