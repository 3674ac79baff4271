//! Columns of text that fit the terminal: the last one gives way.

use crate::terminal;
use heaplab_findings::words::{bytes, count};
use heaplab_snapshot::analysis::{BASE_SYSTEM_DISTANCE, NO_DISTANCE};
use std::fmt::Write;

/// The least that the last column gets.
const LAST_WIDTH_MIN: usize = 20;

/// Rows of cells; all columns are numbers to the right, but for the last, which is text.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new<const N: usize>(headings: [&str; N]) -> Table {
        Table { rows: vec![headings.map(str::to_string).to_vec()] }
    }

    /// Adds a row of as many cells.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Adds a row of as many cells.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text, a line a row.
    pub fn text(&self) -> String {
        let last = self.rows[0].len() - 1;
        let widths: Vec<usize> = (0..last)
            .map(|at| self.rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
            .collect();
        let before: usize = widths.iter().map(|width| width + 2).sum();
        let rest = terminal::columns().saturating_sub(before).max(LAST_WIDTH_MIN);
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

/// At most so many characters on one line, with an ellipsis where some are left out; what would
/// move the cursor is escaped.
pub fn cut(text: &str, width: usize) -> String {
    let mut shown = String::new();
    let mut left = width;
    for character in text.chars() {
        let escaped: String = if character.is_control() {
            character.escape_default().collect()
        } else {
            character.into()
        };
        let length = escaped.chars().count();
        if length > left {
            while shown.chars().count() >= width {
                shown.pop();
            }
            shown.push('…');
            return shown;
        }
        left -= length;
        shown.push_str(&escaped);
    }
    shown
}

/// Text on one line.
pub fn one_line(text: &str) -> String {
    cut(text, usize::MAX)
}

/// A distance as DevTools shows it: none where only internals lead there, or nothing.
pub fn distance(distance: i32) -> String {
    if distance == NO_DISTANCE || distance >= BASE_SYSTEM_DISTANCE {
        "-".into()
    } else {
        distance.to_string()
    }
}

/// A size with its share of all.
pub fn share(size: u64, total: u64) -> String {
    let percent = if total == 0 { 0.0 } else { size as f64 * 100.0 / total as f64 };
    format!("{} {percent:3.0} %", bytes(size))
}

/// A count with thousands apart.
pub fn number(number: u64) -> String {
    count(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_gives_way_and_nothing_moves_the_cursor() {
        assert_eq!(cut("a\nb", 10), "a\\nb");
        assert_eq!(cut("\u{1b}[31mred", 20), "\\u{1b}[31mred");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
        let mut table = Table::new(["count", "class"]);
        table.row(["1,000".into(), "Session".into()]);
        assert_eq!(table.text(), "count  class\n1,000  Session\n");
    }
}
