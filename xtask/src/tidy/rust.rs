//! Rules for Rust files: module docs, SAFETY sentences, libraries that do not print.

use super::{Finding, SourceFile, code::Code};

/// Most lines between a SAFETY sentence's beginning and its `unsafe`.
const SAFETY_LINES: usize = 8;

/// All of them.
pub fn check(file: &SourceFile, code: &Code) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Attributes of the whole file (`#![no_main]`) may come first.
    let first = file.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    if !first.is_some_and(|line| line.starts_with("//!")) {
        findings.push(file.finding(
            1,
            "open the module with `//!`: what it is, why it is so, its source, where it deviates",
        ));
    }
    findings.extend(undocumented_unsafe(file, code));
    if is_library(&file.path) {
        findings.extend(prints(file, code));
    }
    findings
}

/// `unsafe` blocks and impls without a SAFETY sentence.
fn undocumented_unsafe(file: &SourceFile, code: &Code) -> Vec<Finding> {
    let text: Vec<&str> = file.text.lines().collect();
    let undocumented = code.lines().iter().enumerate().filter(|(number, line)| {
        is_unsafe_block(line, code.lines().get(number + 1))
            && !text[number.saturating_sub(SAFETY_LINES)..=*number]
                .iter()
                .any(|line| line.contains("SAFETY"))
    });
    undocumented
        .map(|(number, _)| {
            file.finding(
                number + 1,
                format!("`unsafe` without a `// SAFETY:` sentence in the {SAFETY_LINES} lines above: say why it is sound"),
            )
        })
        .collect()
}

/// Whether the line opens an unsafe block or impl; the brace may stand on the `next` line.
fn is_unsafe_block(line: &str, next: Option<&String>) -> bool {
    let ends_word =
        |before: &str| !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
    line.match_indices("unsafe").filter(|(at, _)| ends_word(&line[..*at])).any(|(at, word)| {
        let after = line[at + word.len()..].trim_start();
        let after =
            if after.is_empty() { next.map_or("", |next| next.trim_start()) } else { after };
        after.starts_with('{') || after.starts_with("impl")
    })
}

/// Libraries return results; only programs, build scripts, tests and examples print.
fn is_library(path: &str) -> bool {
    let programs = ["crates/heaplab/", "crates/oracle/"];
    let apart = ["/tests/", "/examples/", "/benches/", "/src/bin/"];
    path.starts_with("crates/")
        && !programs.iter().any(|program| path.starts_with(program))
        && !apart.iter().any(|folder| path.contains(folder))
        && !path.ends_with("/build.rs")
        && !path.ends_with("/tests.rs")
        && !path.ends_with("_tests.rs")
}

/// Printing macros outside of test modules.
fn prints(file: &SourceFile, code: &Code) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut number = 0;
    while let Some(line) = code.lines().get(number) {
        if line.trim() == "#[cfg(test)]"
            && let Some(end) = code.end_of_block(number + 1, 0)
        {
            number = end + 1;
            continue;
        }
        for name in ["println!", "print!", "eprintln!", "eprint!", "dbg!"] {
            let whole = |at: usize| {
                !line[..at].ends_with(|last: char| last.is_alphanumeric() || last == '_')
            };
            if line.match_indices(name).any(|(at, _)| whole(at)) {
                findings.push(file.finding(
                    number + 1,
                    format!("`{name}` in a library: return it, the command line prints"),
                ));
            }
        }
        number += 1;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = SourceFile { path: path.into(), text: text.into() };
        check(&file, &Code::of_rust(text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn modules_open_with_their_docs() {
        assert_eq!(lines("a.rs", "//! What.\nfn f() {}\n"), [0usize; 0]);
        assert_eq!(lines("a.rs", "#![no_main]\n\n//! What.\n"), Vec::<usize>::new());
        assert_eq!(lines("a.rs", ""), [1]);
        assert_eq!(lines("a.rs", "use std::fs;\n//! What.\n"), [1]);
    }

    #[test]
    fn unsafe_needs_its_sentence_near() {
        assert_eq!(lines("a.rs", "//! A.\nfn f() {\n    unsafe { g() }\n}\n"), [3]);
        assert_eq!(
            lines("a.rs", "//! A.\n// SAFETY: g is pure.\nlet x = unsafe { g() };\n"),
            [0usize; 0]
        );
        assert_eq!(
            lines("a.rs", "//! A.\n// SAFETY: far.\n\n\n\n\n\n\n\n\nunsafe impl Send for A {}\n"),
            [11]
        );
        assert_eq!(lines("a.rs", "//! A.\nlet x = unsafe\n{ g() };\n"), [2]);
        // A function that is unsafe to call says so in its docs; words in comments and strings do
        // not count.
        assert_eq!(
            lines(
                "a.rs",
                "//! unsafe {\nunsafe fn f() {}\nlet a = \"unsafe {\"; #[unsafe(no_mangle)]\n"
            ),
            [0usize; 0]
        );
    }

    #[test]
    fn libraries_do_not_print() {
        let text = "//! A.\nfn f() { println!(); }\n#[cfg(test)]\nmod tests {\n    fn t() { eprintln!(); }\n}\nfn g() { dbg!(1); }\n";
        assert_eq!(lines("crates/trace/src/a.rs", text), [2, 7]);
        for path in [
            "crates/heaplab/src/main.rs",
            "crates/trace/tests/a.rs",
            "crates/preload/build.rs",
            "xtask/src/a.rs",
        ] {
            assert_eq!(lines(path, text), [0usize; 0], "{path}");
        }
    }
}
