//! Marks and the tests that reach them: a mark on a rare path that no test expects shows nothing
//! (`crates/buddy/src/marks.rs`).
//!
//! The text of each `mark("...")` must also stand somewhere in the tree's Rust files as a string of
//! its own: in an `expect`, in a `passed`, or in a constant passed to one of them. This rule does
//! not check that the test takes the path.

use super::{Finding, SourceFile};

const CALL: &str = "mark(";

/// Looks at all files together.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let sources: Vec<&SourceFile> = files.iter().filter(|file| file.extension() == "rs").collect();
    let production = sources.iter().filter(|file| is_production(&file.path));
    let marks =
        production.flat_map(|file| texts(&file.text).map(move |(line, text)| (*file, line, text)));
    marks
        .filter(|(_, _, text)| !sources.iter().any(|file| is_expected(&file.text, text)))
        .map(|(file, number, text)| {
            file.finding(number, format!("the mark {text:?} is expected by no test: reach it with `marks::expect`, or remove it"))
        })
        .collect()
}

/// Only production code; tests have other functions of this name.
fn is_production(path: &str) -> bool {
    path.starts_with("crates/")
        && path.contains("/src/")
        && !path.contains("/tests/")
        && !path.ends_with("marks.rs")
}

/// The texts of calls in a file, with their lines.
fn texts(file: &str) -> impl Iterator<Item = (usize, &str)> {
    let whole =
        |at: &usize| !file[..*at].ends_with(|last: char| last.is_alphanumeric() || last == '_');
    let calls = file.match_indices(CALL).filter(move |(at, _)| whole(at));
    calls.filter_map(|(at, call)| {
        let (text, _) = file[at + call.len()..].trim_start().strip_prefix('"')?.split_once('"')?;
        Some((file[..at].lines().count().max(1), text))
    })
}

/// Whether a file has the text in quotes, outside of a mark.
fn is_expected(file: &str, text: &str) -> bool {
    let quoted = format!("\"{text}\"");
    file.match_indices(&quoted).any(|(at, _)| !file[..at].trim_end().ends_with("mark("))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| SourceFile { path: (*path).into(), text: (*text).into() })
            .collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_mark_that_no_test_names_is_found() {
        let marked = (
            "crates/a/src/lib.rs",
            "fn f() {\n    mark(\"rare\");\n    marks::mark(\n\"rarer\",\n);\n}\n",
        );
        let untidy = found(&[
            marked,
            ("crates/a/src/other.rs", "mark(\"rarer\");"),
            ("crates/a/README.md", "\"rare\""),
        ]);
        assert_eq!(untidy.len(), 3, "{untidy:?}");
        assert!(untidy[0].starts_with("crates/a/src/lib.rs:2: the mark \"rare\""), "{untidy:?}");
        let tests = (
            "crates/a/src/tests/a.rs",
            "marks::expect(\"rare\", || f());\nconst RARER: &str = \"rarer\";",
        );
        assert_eq!(found(&[marked, tests]), [""; 0]);
    }

    #[test]
    fn functions_of_other_names_and_tests_own_are_no_marks() {
        let text = "fn f() { bookmark(\"x\"); self.mark(name); }";
        assert_eq!(
            found(&[
                ("crates/a/src/lib.rs", text),
                ("crates/a/tests/b.rs", "sample.mark(\"closing\");")
            ]),
            [""; 0]
        );
    }
}
