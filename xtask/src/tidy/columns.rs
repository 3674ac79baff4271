//! Width of comments and documents: 100 columns, as rustfmt keeps code. Exempt are lines that
//! cannot be broken: tables, fenced examples, addresses, and definitions of links.

use super::{Finding, SourceFile};

/// Columns that no line of prose may exceed.
const COLUMNS_MAX: usize = 100;

/// Lines of comments (in Rust) or of prose (in Markdown) that are too wide.
pub fn check(file: &SourceFile) -> Vec<Finding> {
    let is_document = match file.extension() {
        "md" => true,
        "rs" => false,
        _ => return Vec::new(),
    };
    let mut fenced = false;
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let prose = if is_document { Some(line.trim_start()) } else { comment(line) };
        let Some(prose) = prose else {
            fenced = false;
            continue;
        };
        if prose.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !fenced && can_be_broken(prose) {
            let what = format!("{columns} columns; at most {COLUMNS_MAX}: break the line");
            findings.push(file.finding(number, what));
        }
    }
    findings
}

/// The words of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let words = line.trim_start().strip_prefix("//")?;
    Some(words.trim_start_matches(['/', '!']).trim_start())
}

fn can_be_broken(prose: &str) -> bool {
    let is_link = prose.starts_with('[') && prose.contains("]: ");
    !prose.starts_with('|') && !prose.contains("://") && !is_link
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = SourceFile { path: path.into(), text: text.into() };
        check(&file).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn wide_prose_is_found_and_what_cannot_be_broken_is_not() {
        let wide = "word ".repeat(21);
        let document = format!("{wide}\n\n| {wide} |\n```\n{wide}\n```\nhttps://{wide}\n{wide}");
        assert_eq!(lines("a.md", &document), [1, 8]);
        let code = format!("/// {wide}\nlet a = \"{wide}\";\n    //! | {wide}\n// {wide}\n");
        assert_eq!(lines("a.rs", &code), [1, 4]);
        assert!(lines("a.json", &wide).is_empty());
        assert!(lines("a.md", &"x".repeat(COLUMNS_MAX)).is_empty());
    }
}
