//! An answer as one HTML file, to attach to a bug report. The file has no script and loads nothing.
//! All text from the snapshot is escaped.

use heaplab_text::lines::cut;
use heaplab_text::markup::escaped;
use std::fmt::Write;

const STYLE: &str = include_str!("../assets/attachment.css");
/// Characters of a cell: a string of the program may have megabytes.
const CELL_CHARACTERS: usize = 300;
/// Rows of a table.
const ROWS_MAX: usize = 2_000;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Its cells stand at the right.
    Number(&'static str),
    /// Its cells may have several lines.
    Text(&'static str),
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    /// Exact value, shown under the mouse.
    exact: Option<String>,
    /// Percent of the total, drawn behind the text.
    percent: Option<f64>,
}

impl Cell {
    pub fn of(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), exact: None, percent: None }
    }

    /// Bytes with their share of the total.
    pub fn size(text: String, size: u64, total: u64) -> Cell {
        let percent = if total == 0 { 0.0 } else { size as f64 * 100.0 / total as f64 };
        Cell { text, exact: Some(format!("{size} bytes")), percent: Some(percent) }
    }
}

/// A file that grows from its head on.
pub(crate) struct Attachment {
    title: String,
    body: String,
}

impl Attachment {
    /// Starts the file with a heading and a paragraph for each sentence.
    pub fn new(title: &str, sentences: &[String]) -> Attachment {
        let mut body = format!("<h1>{}</h1>\n", escaped(title));
        for sentence in sentences {
            let _ = writeln!(body, "<p>{}</p>", escaped(sentence));
        }
        Attachment { title: title.to_owned(), body }
    }

    /// A heading within the file.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escaped(text));
    }

    /// A sentence.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escaped(text));
    }

    /// An ordered list; the marked line is the one to look at.
    pub fn steps(&mut self, steps: &[(String, bool)]) {
        self.body.push_str("<ol class=\"way\">\n");
        for (step, is_marked) in steps {
            let mark = if *is_marked { " class=\"cut\"" } else { "" };
            let _ = writeln!(self.body, "<li{mark}>{}</li>", escaped(&cut(step, CELL_CHARACTERS)));
        }
        self.body.push_str("</ol>\n");
    }

    /// A table; rows beyond [`ROWS_MAX`] are counted.
    pub fn table(&mut self, columns: &[Column], rows: impl ExactSizeIterator<Item = Vec<Cell>>) {
        let left_out = rows.len().saturating_sub(ROWS_MAX);
        self.body.push_str("<div class=\"wide\"><table>\n<thead><tr>");
        for column in columns {
            let (Column::Number(name) | Column::Text(name)) = column;
            let _ = write!(self.body, "<th scope=\"col\"{}>{name}</th>", class_of(column));
        }
        self.body.push_str("</tr></thead>\n<tbody>\n");
        for row in rows.take(ROWS_MAX) {
            self.body.push_str("<tr>");
            for (column, cell) in columns.iter().zip(row) {
                let exact = cell.exact.map(|exact| format!(" title=\"{}\"", escaped(&exact)));
                let percent =
                    cell.percent.map(|percent| format!(" style=\"--share: {percent:.2}\""));
                let _ = write!(
                    self.body,
                    "<td{}{}{}>{}</td>",
                    class_of(column),
                    exact.unwrap_or_default(),
                    percent.unwrap_or_default(),
                    escaped(&cut(&cell.text, CELL_CHARACTERS))
                );
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
        if left_out > 0 {
            let _ = writeln!(self.body, "<p class=\"muted\">... and {left_out} rows more</p>");
        }
    }

    /// The whole file.
    pub fn html(self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'nonce-heaplab'; style-src-attr 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{}</title>\n<style nonce=\"heaplab\">\n{STYLE}</style></head>\n<body>\n{}\
             <footer>Made by heaplab {}. Names and strings of the program are in this file: \
             <code>heaplab snapshot redact</code> takes them out of a snapshot.</footer>\n</body>\n\
             </html>\n",
            escaped(&self.title),
            self.body,
            env!("CARGO_PKG_VERSION"),
        )
    }
}

fn class_of(column: &Column) -> &'static str {
    match column {
        Column::Number(_) => " class=\"n\"",
        Column::Text(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_program_is_markup_and_long_tables_are_cut() {
        let mut file = Attachment::new("<b>&", &["\u{1b}[31m<i>".into()]);
        let rows = (0..2_005).map(|_| vec![Cell::of("<script>"), Cell::size("1 B".into(), 1, 4)]);
        file.table(&[Column::Text("what"), Column::Number("size")], rows);
        file.steps(&[(".a = <x>".into(), true), ("b".repeat(1_000), false)]);
        let html = file.html();
        for markup in ["<b>&", "<i>", "<x>", "\u{1b}", "<script"] {
            assert!(!html.contains(markup), "{markup}");
        }
        assert_eq!(html.matches("<tr>").count(), 2_001);
        assert!(html.contains("... and 5 rows more") && html.contains("--share: 25.00"));
        assert!(!html.contains(&"b".repeat(301)));
    }
}
