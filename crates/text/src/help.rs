//! What stands after the options in a command's `--help`, laid out for so many columns.
//!
//! clap breaks lines at a width without regard to their content. The source has the texts as a
//! person reads them, in four kinds of line. This module breaks them:
//! - under `Examples:`, commands, with `# words` on the line above or the words behind two spaces:
//!   the words come first, and a command that is too long goes on behind a backslash, so that it
//!   can be pasted as it is;
//! - `TERM  meaning`, with two spaces between: the meaning has a column of its own;
//! - other lines that are indented: they stay lines of their own;
//! - all others: paragraphs, wherever the source breaks them.

use crate::lines::{paragraph, wrap};

/// The heading of examples.
const EXAMPLES: &str = "Examples:";
/// Before a command and its words.
const INDENT: &str = "  ";
/// Before the rest of a long command.
const CONTINUED: &str = "      ";
/// A line indented this far continues the line before it.
const DEEP: usize = 8;

/// One line of the text, as read so far.
enum Piece {
    Blank,
    Heading(String),
    /// Words about a command, and the command.
    Example(String, String),
    /// A term and its meaning.
    Term(String, String),
    Indented(String),
    Paragraph(String),
}

/// The text for a terminal of so many columns.
pub fn lay_out(text: &str, columns: usize) -> String {
    let pieces = pieces(text);
    let mut out = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Blank => out.push('\n'),
            Piece::Heading(text) => out.push_str(&format!("{text}\n")),
            Piece::Example(words, command) => {
                for line in
                    wrap(words, columns - INDENT.len() - 2).iter().filter(|line| !line.is_empty())
                {
                    out.push_str(&format!("{INDENT}# {line}\n"));
                }
                out.push_str(&pasteable(command, columns));
            }
            Piece::Term(term, meaning) => {
                out.push_str(&paragraph(
                    meaning,
                    &format!("{INDENT}{term}"),
                    INDENT.len() + terms_column(&pieces, index),
                    columns,
                ));
            }
            Piece::Indented(text) => out.push_str(&paragraph(text, INDENT, INDENT.len(), columns)),
            Piece::Paragraph(text) => out.push_str(&paragraph(text, "", 0, columns)),
        }
    }
    out.trim_end().to_string()
}

/// Where the meanings of the terms around this one begin.
fn terms_column(pieces: &[Piece], index: usize) -> usize {
    let term = |piece: &Piece| {
        if let Piece::Term(term, _) = piece { Some(term.chars().count() + 2) } else { None }
    };
    let before = pieces[..index].iter().rev().map_while(term).max().unwrap_or(0);
    pieces[index..].iter().map_while(term).max().unwrap_or(0).max(before)
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut in_examples = false;
    // Words that wait for their command, and a command that goes on.
    let (mut words, mut begun) = (String::new(), Vec::<&str>::new());
    for line in text.lines() {
        let (line, indent) = (line.trim(), line.len() - line.trim_start().len());
        match pieces.last_mut() {
            _ if line.is_empty() => pieces.push(Piece::Blank),
            _ if line == EXAMPLES => pieces.push(Piece::Heading(line.into())),
            _ if in_examples && line.starts_with("# ") => words = format!("{words} {}", &line[2..]),
            Some(Piece::Example(words, _)) if in_examples && begun.is_empty() && indent >= DEEP => {
                *words = line.into()
            }
            _ if in_examples => {
                if let Some(rest) = line.strip_suffix('\\') {
                    begun.push(rest.trim_end());
                    continue;
                }
                let (last, behind) = line.split_once("  ").unwrap_or((line, ""));
                let behind = behind.trim_start().trim_start_matches("# ");
                begun.push(last);
                pieces.push(Piece::Example(
                    format!("{} {behind}", words.trim()).trim().into(),
                    begun.join("\n"),
                ));
                (words, begun) = (String::new(), Vec::new());
            }
            Some(Piece::Term(_, meaning) | Piece::Indented(meaning)) if indent >= DEEP => {
                *meaning = format!("{meaning} {line}")
            }
            _ if line.contains("  ") => {
                let (term, meaning) = line.split_once("  ").unwrap_or((line, ""));
                pieces.push(Piece::Term(term.into(), meaning.trim().into()));
            }
            _ if indent > 0 => pieces.push(Piece::Indented(line.into())),
            Some(Piece::Paragraph(before)) => *before = format!("{before} {line}"),
            _ => pieces.push(Piece::Paragraph(line.into())),
        }
        in_examples = line == EXAMPLES || (in_examples && !line.is_empty());
    }
    pieces
}

/// A command on one line where that is long enough, else on those that the source gives it and on
/// more where those are too long. No line ends inside of quotes.
fn pasteable(command: &str, columns: usize) -> String {
    let whole = command.replace('\n', " ");
    if INDENT.len() + whole.chars().count() <= columns {
        return format!("{INDENT}{whole}\n");
    }
    let mut lines: Vec<String> = Vec::new();
    for part in command.lines() {
        let mut line = String::new();
        for word in words(part) {
            let indent = if lines.is_empty() { INDENT } else { CONTINUED };
            let length =
                indent.len() + line.chars().count() + 1 + word.chars().count() + " \\".len();
            if !line.is_empty() && length > columns {
                lines.push(format!("{indent}{line}"));
                line = word;
            } else {
                line = if line.is_empty() { word } else { format!("{line} {word}") };
            }
        }
        lines.push(format!("{}{line}", if lines.is_empty() { INDENT } else { CONTINUED }));
    }
    lines.join(" \\\n") + "\n"
}

/// The words of a command; quoted text is one word.
fn words(command: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in command.split(' ') {
        match words.last_mut().filter(|last| last.matches('\'').count() % 2 == 1) {
            Some(quoted) => *quoted = format!("{quoted} {word}"),
            None => words.push(word.into()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_laid_out_its_own_way() {
        let text = "Examples:\n  heaplab a --long-option \\\n      'one two three'   with words behind it\n  # words before\n  heaplab b\n  \
                    heaplab c\n                       deep words\n\nA paragraph that is\nbroken in the source.\n\n\
                    count(X)   how many of it there are in all\nn()  all";
        let expected = "Examples:\n  # with words behind it\n  heaplab a --long-option \\\n      'one two three'\n  # words before\n  heaplab b\n  \
                        # deep words\n  heaplab c\n\nA paragraph that is broken in\nthe source.\n\n  count(X)  how many of it\n            \
                        there are in all\n  n()       all";
        assert_eq!(lay_out(text, 30), expected);
    }
}
