//! Length of files and functions: a long one usually hides a second idea that needs a name and a
//! file of its own.

use super::{Finding, SourceFile, code::Code};

/// Lines that no file may exceed.
const FILE_LINES_MAX: usize = 800;
/// A file with this many lines deserves a look.
const FILE_LINES_LONG: usize = 500;
/// Lines of code (blank lines and comments not counted) that no function may exceed: a screen.
const FUNCTION_LINES_MAX: usize = 70;
/// Paths that must stay small, the most lines below each, and the place for the rest.
const PLACES: [(&str, usize, &str); 3] = [
    (
        "crates/heaplab/src/",
        6000,
        "the command line parses, calls and prints: move logic to the crate of its subject",
    ),
    ("crates/heaplab/src/heaps.rs", 60, "a family is one line: the rest belongs to its crate"),
    ("README.md", 150, "a section a user: move details to docs/"),
];
/// Extensions of files that people write; documents and data may be long.
const LANGUAGES: [&str; 7] = ["rs", "c", "h", "py", "js", "css", "sh"];

/// Whether the file is too long.
pub fn file(file: &SourceFile) -> Option<Finding> {
    let lines = source_lines(file)?;
    (lines > FILE_LINES_MAX).then(|| {
        file.finding(
            1,
            format!(
                "{lines} lines; at most {FILE_LINES_MAX}: name the second idea and give it its file"
            ),
        )
    })
}

/// Places with more lines than they may have.
pub fn places(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (place, lines_max, remedy) in PLACES {
        let mut there = files.iter().filter(|file| file.path.starts_with(place)).peekable();
        let Some(first) = there.peek().copied() else { continue };
        let lines: usize = there.map(|file| file.text.lines().count()).sum();
        if lines > lines_max {
            let message = format!("{lines} lines in {place}; at most {lines_max}: {remedy}");
            findings.push(first.finding(1, message));
        }
    }
    findings
}

/// A remark on a file that deserves a look but is allowed.
pub fn nearly_too_long(file: &SourceFile) -> Option<String> {
    let lines = source_lines(file)
        .filter(|lines| (FILE_LINES_LONG + 1..=FILE_LINES_MAX).contains(lines))?;
    Some(format!(
        "{}:1: warning: {lines} lines; most files stay below {FILE_LINES_LONG}",
        file.path
    ))
}

/// Files, their median and their longest, in words.
pub fn summary(files: &[SourceFile]) -> String {
    let mut lines: Vec<usize> = files.iter().filter_map(source_lines).collect();
    lines.sort_unstable();
    let median = lines.get(lines.len() / 2).copied().unwrap_or(0);
    let longest = lines.last().copied().unwrap_or(0);
    format!("{} source files, median {median} lines, longest {longest}", lines.len())
}

/// Functions that are too long.
pub fn functions(file: &SourceFile, code: &Code) -> Vec<Finding> {
    let starts: Vec<(usize, usize)> =
        if file.extension() == "rs" { rust_functions(code) } else { c_functions(code) };
    let too_long = starts.into_iter().filter_map(|(line, column)| {
        let end = code.end_of_block(line, column)?;
        let lines = code.lines()[line..=end].iter().filter(|line| says_something(line)).count();
        (lines > FUNCTION_LINES_MAX).then(|| {
            file.finding(
                line + 1,
                format!("a function of {lines} lines of code; at most {FUNCTION_LINES_MAX}: split it where the idea changes"),
            )
        })
    });
    too_long.collect()
}

/// Whether a line holds more than brackets.
fn says_something(line: &str) -> bool {
    line.contains(|character: char| character.is_alphanumeric())
}

fn source_lines(file: &SourceFile) -> Option<usize> {
    LANGUAGES.contains(&file.extension()).then(|| file.text.lines().count())
}

/// Places of the word `fn` that begin a function.
fn rust_functions(code: &Code) -> Vec<(usize, usize)> {
    let mut starts = Vec::new();
    for (number, line) in code.lines().iter().enumerate() {
        let words = line.match_indices("fn ").filter(|(at, _)| {
            !line[..*at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
        });
        starts.extend(words.map(|(at, _)| (number, line[..at].chars().count())));
    }
    starts
}

/// Lines at the outermost level that begin something with parameters; a declaration ends in `;` and
/// has no block.
fn c_functions(code: &Code) -> Vec<(usize, usize)> {
    let starts_at_margin =
        |line: &str| line.starts_with(|first: char| first.is_alphabetic() || first == '_');
    code.lines()
        .iter()
        .enumerate()
        .filter(|(_, line)| starts_at_margin(line) && line.contains('('))
        .map(|(number, _)| (number, 0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: String) -> SourceFile {
        SourceFile { path: path.into(), text }
    }

    #[test]
    fn long_files_are_found_and_nearly_long_ones_named() {
        let of = |lines: usize| source("a.rs", "x\n".repeat(lines));
        assert!(file(&of(800)).is_none());
        assert!(file(&of(801)).unwrap().message.starts_with("801 lines"));
        assert!(nearly_too_long(&of(500)).is_none());
        assert!(nearly_too_long(&of(501)).is_some());
        assert!(file(&source("a.json", "x\n".repeat(9000))).is_none());
    }

    #[test]
    fn places_that_must_stay_small_are_added_up() {
        let of = |lines: usize| {
            let half =
                |name: &str| source(&format!("crates/heaplab/src/{name}"), "x\n".repeat(lines / 2));
            places(&[half("a.rs"), source("crates/trace/src/a.rs", "x\n".into()), half("b/c.rs")])
        };
        assert_eq!(of(6000), []);
        let found = of(6002);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.starts_with("6002 lines in crates/heaplab/src/; at most 6000"));
        assert_eq!(places(&[source("crates/heaplab/src/heaps.rs", "x\n".repeat(61))]).len(), 1);
        assert_eq!(places(&[source("README.md", "x\n".repeat(151))]).len(), 1);
    }

    #[test]
    fn long_functions_are_found_in_rust_and_c() {
        for (path, head) in
            [("a.rs", "pub(crate) fn f(a: u8) -> u8"), ("a.c", "static int f(int a)")]
        {
            let of = |lines: usize| {
                let file = source(
                    path,
                    format!(
                        "// a comment\n{head}\n{{\n{}\n// not code\n}}\n",
                        "  a += 1;\n".repeat(lines)
                    ),
                );
                let code =
                    if path == "a.rs" { Code::of_rust(&file.text) } else { Code::of_c(&file.text) };
                functions(&file, &code)
            };
            assert_eq!(of(69), [], "{path}");
            let findings = of(70);
            assert_eq!(findings.len(), 1, "{path}");
            assert_eq!(findings[0].line, 2);
            assert!(findings[0].message.starts_with("a function of 71 lines"));
        }
    }

    #[test]
    fn the_summary_counts_sources_only() {
        let files = [
            source("a.rs", "x\n".repeat(3)),
            source("b.md", "x\n".repeat(99)),
            source("c.c", "x\n".repeat(5)),
        ];
        assert_eq!(summary(&files), "2 source files, median 5 lines, longest 5");
    }
}
