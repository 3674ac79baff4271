//! How wide the reader's terminal is, and text that fits it.

use clap::ColorChoice;
use std::io::IsTerminal;
use std::sync::OnceLock;

/// Columns where nobody says how many there are: a pipe, a file.
const COLUMNS: usize = 80;
/// Narrower than this no table can be.
const COLUMNS_MIN: usize = 60;
/// In lines longer than this the eye loses its way.
const COLUMNS_MAX: usize = 120;

/// Columns to fill.
pub fn columns() -> usize {
    width().min(COLUMNS_MAX)
}

/// Columns of the terminal that standard output is, or else what `COLUMNS` says, or else 80.
pub fn width() -> usize {
    let out = std::io::stdout();
    let asked = if out.is_terminal() {
        rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col))
    } else {
        None
    };
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    asked.filter(|columns| *columns > 0).or_else(told).unwrap_or(COLUMNS).max(COLUMNS_MIN)
}

/// Columns that lines on standard error are to fit, where they are: on a terminal, or where
/// `COLUMNS` says so.
pub fn error_width() -> Option<usize> {
    let error = std::io::stderr();
    let asked = if error.is_terminal() {
        rustix::termios::tcgetwinsize(&error).ok().map(|size| usize::from(size.ws_col))
    } else {
        None
    };
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    Some(asked.filter(|columns| *columns > 0).or_else(told)?.clamp(COLUMNS_MIN, COLUMNS_MAX))
}

/// What `--color` says.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Keeps what `--color` says, for [`has_colours`].
pub fn choose_colours(choice: ColorChoice) {
    CHOICE.get_or_init(|| choice);
}

/// Whether standard output is to have colours: as `--color` says, or else where it is a terminal
/// that takes them and nobody asked for none.
pub fn has_colours() -> bool {
    match CHOICE.get() {
        Some(ColorChoice::Always) => return true,
        Some(ColorChoice::Never) => return false,
        Some(ColorChoice::Auto) | None => {}
    }
    let named = |name: &str| std::env::var(name).unwrap_or_default();
    std::io::stdout().is_terminal() && takes_colours(&named("TERM"), &named("NO_COLOR"))
}

/// Whether a terminal of this kind does, where `NO_COLOR` says this. One that is called dumb shows
/// escapes as they are.
fn takes_colours(kind: &str, no_color: &str) -> bool {
    kind != "dumb" && no_color.is_empty()
}

/// `text` on one line without what moves the cursor: a recorded program's name may hold anything.
fn shown(text: &str) -> Vec<char> {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// The line, shortened at its end to the width where it is longer. Control characters never reach
/// the terminal.
pub fn cut(line: &str, width: usize) -> String {
    let mut shown = shown(line);
    if shown.len() > width {
        shown.truncate(width.saturating_sub(1));
        shown.push('…');
    }
    shown.into_iter().collect()
}

/// The same with what is left out in the middle: a path is known by its beginning and its end.
pub fn cut_middle(text: &str, width: usize) -> String {
    let shown = shown(text);
    if shown.len() <= width {
        return shown.into_iter().collect();
    }
    let kept = width.saturating_sub(1);
    // The end says more than the beginning: it is the file's own name.
    let head = kept / 3;
    let tail = &shown[shown.len() - (kept - head)..];
    shown[..head].iter().chain(&['…']).chain(tail).collect()
}

/// Lines of at most `width` columns; a number and its unit stay together, and a word that is longer
/// than a line has its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut words = text.split(' ').filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let mut piece = word.to_string();
        while piece.ends_with(|letter: char| letter.is_ascii_digit())
            && words.peek().is_some_and(|next| is_unit(next))
        {
            piece.push(' ');
            piece.push_str(words.next().unwrap_or_default());
        }
        let line = lines.last_mut().map_or(0, |line| line.chars().count());
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

/// A paragraph as text: the first line behind `first`, the others behind as many spaces as
/// `hanging` says.
pub fn paragraph(text: &str, first: &str, hanging: usize, width: usize) -> String {
    let indent = hanging.max(first.chars().count());
    let mut out = String::new();
    for (row, line) in wrap(text, width.saturating_sub(indent)).iter().enumerate() {
        let before = if row == 0 { format!("{first:<hanging$}") } else { " ".repeat(hanging) };
        out.push_str(format!("{before}{line}").trim_end());
        out.push('\n');
    }
    out
}

fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches(|letter: char| ".,;:)".contains(letter));
    ["%", "KiB", "MiB", "GiB", "TiB", "bytes", "byte", "ns", "us", "ms", "s", "min", "h"]
        .contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_units_stay_with_their_numbers() {
        let text = "it would save 9.22 MiB at the peak, and that is 19.6 % of it";
        let lines = wrap(text, 22);
        assert!(lines.iter().all(|line| line.chars().count() <= 22), "{lines:?}");
        assert!(
            lines.iter().all(|line| !line.starts_with("MiB") && !line.starts_with('%')),
            "{lines:?}"
        );
        assert_eq!(lines.join(" "), text);
        assert_eq!(paragraph("one two three", "a: ", 4, 11), "a:  one two\n    three\n");
        assert_eq!(paragraph("one two three", "a: ", 0, 11), "a: one two\nthree\n");
    }

    #[test]
    fn a_dumb_terminal_gets_no_colours() {
        assert!(takes_colours("xterm-256color", "") && takes_colours("", ""));
        assert!(!takes_colours("dumb", "") && !takes_colours("xterm", "1"));
    }

    #[test]
    fn what_is_too_long_is_cut_and_nothing_moves_the_cursor() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("a\x1b[31m", 80), "a?[31m");
        assert_eq!(cut_middle("/usr/lib/debug/libc.so", 80), "/usr/lib/debug/libc.so");
        assert_eq!(cut_middle("/usr/lib/debug/libc.so", 13), "/usr…/libc.so");
        assert_eq!(cut_middle("ab\ncdef", 4), "a…ef");
    }
}
