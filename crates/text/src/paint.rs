//! Lines that fit a width, with colours where the terminal takes them.

use crate::lines::{cut, wrap};

/// How a text is written.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns to fill.
    pub width: usize,
    /// Columns that the lines of another tool's form may take.
    pub listing_width: usize,
    /// Whether the terminal takes colours.
    pub colour: bool,
    /// How many rows of a list are shown.
    pub top: usize,
}

/// Collects lines.
#[derive(Debug)]
pub struct Paint {
    text: String,
    width: usize,
    colour: bool,
}

const BOLD: &str = "1";
const DIM: &str = "2";
const HEADING: &str = "1;36";
const WARNING: &str = "1;33";
const CHART: &str = "36";

impl Paint {
    /// Begins with nothing.
    pub fn new(width: usize, colour: bool) -> Paint {
        Paint { text: String::new(), width, colour }
    }

    /// Columns to fill.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All lines.
    pub fn finish(self) -> String {
        self.text
    }

    fn styled(&mut self, style: &str, line: &str) {
        let line = cut(line, self.width);
        if self.colour && !line.is_empty() {
            self.text.push_str(&format!("\x1b[{style}m{line}\x1b[0m\n"));
        } else {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    /// An unpainted line.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(cut(line, self.width).trim_end());
        self.text.push('\n');
    }

    /// The name of the program.
    pub fn title(&mut self, line: &str) {
        self.styled(BOLD, line);
    }

    /// Begins a section.
    pub fn heading(&mut self, line: &str) {
        self.text.push('\n');
        self.styled(HEADING, line);
    }

    /// Stands out.
    pub fn bold(&mut self, line: &str) {
        self.styled(BOLD, line);
    }

    /// Stands out, behind a mark such as a number; further lines begin below its first word.
    pub fn item(&mut self, mark: &str, text: &str) {
        let columns = mark.chars().count();
        for (number, line) in wrap(text, self.width.saturating_sub(columns)).into_iter().enumerate()
        {
            let before = if number == 0 { mark } else { "" };
            self.styled(BOLD, &format!("{before:columns$}{line}"));
        }
    }

    /// Steps back.
    pub fn dim(&mut self, line: &str) {
        self.styled(DIM, line);
    }

    /// A bar chart.
    pub fn chart(&mut self, line: &str) {
        self.styled(CHART, line);
    }

    /// Something to know before believing the rest.
    pub fn warning(&mut self, text: &str) {
        for line in wrap(text, self.width.saturating_sub(2)) {
            self.styled(WARNING, &format!("! {line}"));
        }
    }

    /// A paragraph.
    pub fn wrapped(&mut self, indent: &str, text: &str) {
        for line in wrap(text, self.width.saturating_sub(indent.chars().count())) {
            self.line(&format!("{indent}{line}"));
        }
    }

    /// A dim paragraph.
    pub fn wrapped_dim(&mut self, indent: &str, text: &str) {
        for line in wrap(text, self.width.saturating_sub(indent.chars().count())) {
            self.dim(&format!("{indent}{line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_there_is_no_escape() {
        let mut paint = Paint::new(80, false);
        paint.heading("one");
        paint.warning("two");
        assert_eq!(paint.finish(), "\none\n! two\n");
    }

    #[test]
    fn an_item_goes_on_below_its_first_word() {
        let mut paint = Paint::new(12, false);
        paint.item(" 1. ", "buffers that grow");
        assert_eq!(paint.finish(), " 1. buffers\n    that\n    grow\n");
    }
}
