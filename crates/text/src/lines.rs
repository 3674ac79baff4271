//! Lines that fit a width. Nothing in a line moves the cursor, whatever name a recorded program
//! has.

/// `text` on one line, with characters that would move the cursor escaped.
pub fn one_line(text: &str) -> String {
    shown(text).collect()
}

/// Whether a letter moves the cursor, or turns the direction in which others are shown, so that a
/// name can pass for another one (Boucher and Anderson 2021).
pub fn misleads(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn shown(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(|letter| {
        let (plain, escaped) = if misleads(letter) {
            (None, Some(letter.escape_default()))
        } else {
            (Some(letter), None)
        };
        plain.into_iter().chain(escaped.into_iter().flatten())
    })
}

/// `text` on one line of at most `width` columns; a longer text is cut at its end.
pub fn cut(text: &str, width: usize) -> String {
    // One more than fit: a snapshot's strings have megabytes.
    let mut letters: Vec<char> = shown(text).take(width.saturating_add(1)).collect();
    if letters.len() > width {
        letters.truncate(width.saturating_sub(1));
        letters.push('…');
    }
    letters.into_iter().collect()
}

/// Like [`cut`], with the middle left out: beginning and end identify a path.
pub fn cut_middle(text: &str, width: usize) -> String {
    let shown: Vec<char> = shown(text).collect();
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

/// A paragraph as text: the first line behind `first`, the others behind `hanging` spaces.
pub fn paragraph(text: &str, first: &str, hanging: usize, width: usize) -> String {
    let indent = hanging.max(first.chars().count());
    let mut out = String::new();
    let lines = wrap(&one_line(text), width.saturating_sub(indent));
    for (row, line) in lines.iter().enumerate() {
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

/// A [`paragraph`] behind `label`; its further lines are two columns in.
pub fn hanging(text: &str, label: &str, width: usize) -> String {
    paragraph(text, label, 2, width).trim_start().into()
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
    fn what_is_too_long_is_cut_and_nothing_moves_the_cursor() {
        assert_eq!([cut("abcdef", 4), cut("abcd", 4), cut("äöü", 3)], ["abc…", "abcd", "äöü"]);
        assert_eq!([one_line("a\nb"), one_line("\u{1b}[31m")], ["a\\nb", "\\u{1b}[31m"]);
        assert_eq!(cut("gpj.\u{202e}exe", 20), "gpj.\\u{202e}exe");
        assert_eq!(paragraph("a \u{2067}b", "", 0, 40), "a \\u{2067}b\n");
        assert_eq!(cut("\u{1b}red", 6), "\\u{1b…");
        assert_eq!(cut_middle("/usr/lib/debug/libc.so", 80), "/usr/lib/debug/libc.so");
        assert_eq!(cut_middle("/usr/lib/debug/libc.so", 13), "/usr…/libc.so");
        assert_eq!(cut_middle("ab\ncdef", 4), "a…ef");
    }

    #[test]
    fn lines_end_where_the_terminal_does() {
        let text = hanging(&"word ".repeat(60), "Note: ", 80);
        assert!(
            text.starts_with("Note: word") && text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert_eq!(text.split_whitespace().filter(|word| *word == "word").count(), 60);
    }
}
