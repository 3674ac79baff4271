//! The saving of a change as text: the verdict, the tables behind it, and the assumptions.

use super::WhatIf;
use heaplab_text::lines::{hanging, paragraph};
use heaplab_text::shell::quoted;
use heaplab_text::table::{Ruling, ruled};
use std::path::Path;

impl WhatIf {
    /// The whole text, `columns` wide.
    pub fn text(&self, path: &Path, columns: usize) -> String {
        let view = self.view();
        let mut out = String::new();
        for sentence in &view.verdict {
            out += &paragraph(sentence, "", 0, columns);
        }
        out.push('\n');
        for change in &view.changed {
            out += &paragraph(change, "Changed: ", 9, columns);
        }
        for table in view.tables {
            let table = ruled(Ruling::Heading, table.headings, table.rows, 1, columns);
            out += &format!("\n{table}\n");
        }
        out.push('\n');
        for assumption in &view.assumptions {
            out += &hanging(assumption, "Taken for granted: ", columns);
        }
        for caution in &view.cautions {
            out += &hanging(caution, "Note: ", columns);
        }
        out += &format!("\nThe changed workload: heaplab report {}\n", quoted(path));
        out
    }
}
