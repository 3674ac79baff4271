//! Tables. [`Table`] is plain: numbers to the right, and a last column of text that gives way;
//! [`ruled`] draws lines between rows and breaks cells that are too wide.

use crate::lines::cut;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle, presets};
use std::fmt::Write;

pub use comfy_table::Table as Ruled;

/// The least that the last column gets.
const LAST_WIDTH_MIN: usize = 20;

/// Rows of cells; all columns are numbers to the right, but for the last, which is text.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new<T: ToString>(headings: impl IntoIterator<Item = T>) -> Table {
        Table { rows: vec![headings.into_iter().map(|heading| heading.to_string()).collect()] }
    }

    /// Adds a row of as many cells.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The text, a line a row, in so many columns.
    pub fn text(&self, columns: usize) -> String {
        let last = self.rows[0].len() - 1;
        let widths: Vec<usize> = (0..last)
            .map(|at| self.rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
            .collect();
        let before: usize = widths.iter().map(|width| width + 2).sum();
        let rest = columns.saturating_sub(before).max(LAST_WIDTH_MIN);
        let mut text = String::new();
        for row in &self.rows {
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(text, "{cell:>width$}  ");
            }
            let _ = writeln!(text, "{}", cut(&row[last], rest));
        }
        text
    }
}

/// Where a table has lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Between all rows.
    EveryRow,
    /// Above, below and under the heading: for ten rows and more.
    Heading,
}

/// A table with lines in so many columns, all but the first `left` of its columns to the right.
pub fn ruled<T: ToString>(
    ruling: Ruling,
    headings: impl IntoIterator<Item = T>,
    rows: impl IntoIterator<Item = Vec<String>>,
    left: usize,
    columns: usize,
) -> Ruled {
    let line = || LineStyle::none().fill('─').junction('─');
    let mut table = Ruled::new();
    match ruling {
        Ruling::EveryRow => table.load_style(presets::UTF8_HORIZONTAL_ONLY),
        Ruling::Heading => table.load_style(
            TableStyle::new().top_border(line()).header_separator(line()).bottom_border(line()),
        ),
    };
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(columns.try_into().unwrap_or(u16::MAX))
        .set_header(headings.into_iter().map(|heading| heading.to_string()))
        .add_rows(rows);
    for (number, column) in table.column_iter_mut().enumerate() {
        if number >= left {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if ruling == Ruling::Heading {
            column.set_padding((0, 1));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_gives_way() {
        let mut table = Table::new(["count", "class"]);
        table.row(["1,000".into(), format!("Session{}", "x".repeat(40))]);
        assert_eq!(table.text(30), "count  class\n1,000  Sessionxxxxxxxxxxxxxxx…\n");
        assert!(table.text(10).ends_with("Sessionxxxxxxxxxxxx…\n"));
    }
}
