//! Lines that fit a width, with colours where the terminal takes them.

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

    /// A line as it is.
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

/// The line, shortened to the width where it is longer. Control characters of a recorded program's name never reach the terminal.
pub fn cut(line: &str, width: usize) -> String {
    let mut shown: String = line.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    if let Some((end, _)) = shown.char_indices().nth(width) {
        let keep = shown[..end].char_indices().last().map_or(0, |(index, _)| index);
        shown.truncate(keep);
        shown.push('…');
    }
    shown
}

/// Lines of at most `width` columns; a number and its unit stay together.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        let mut piece = word.to_string();
        while word.ends_with(|letter: char| letter.is_ascii_digit()) && words.peek().is_some_and(|next| is_unit(next)) {
            piece.push(' ');
            piece.push_str(words.next().unwrap_or_default());
        }
        let line = lines.last_mut().map(|line| line.chars().count()).unwrap_or(0);
        if line > 0 && line + 1 + piece.chars().count() > width {
            lines.push(piece);
        } else if let Some(last) = lines.last_mut() {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(&piece);
        }
    }
    lines
}

fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches(|letter: char| ".,;:)".contains(letter));
    ["%", "KiB", "MiB", "GiB", "TiB", "bytes", "byte", "ns", "us", "ms", "s", "min", "h"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_units_stay_with_their_numbers() {
        let text = "it would save 9.22 MiB at the peak, and that is 19.6 % of it";
        let lines = wrap(text, 22);
        assert!(lines.iter().all(|line| line.chars().count() <= 22), "{lines:?}");
        assert!(lines.iter().all(|line| !line.starts_with("MiB") && !line.starts_with('%')), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("a\x1b[31m", 80), "a?[31m");
    }

    #[test]
    fn without_colours_there_is_no_escape() {
        let mut paint = Paint::new(80, false);
        paint.heading("one");
        paint.warning("two");
        assert_eq!(paint.finish(), "\none\n! two\n");
    }
}
