//! Words that must not stand in the tree: unfinished code, skipped tests, paths of someone's
//! machine, addresses of registries.

use super::{Finding, SourceFile};

/// A word and its remedy. The word is written in two parts, so that this file does not contain it.
const WORDS: [(&str, &str, &str); 13] = [
    ("todo", "!(", "unfinished: finish it"),
    ("unimplemented", "!(", "unfinished: finish it"),
    (
        "#[ign",
        "ore",
        "a test that never runs: make it run, or skip it with a line on standard error where its program is absent",
    ),
    ("FIX", "ME", "fix it, or open an issue"),
    ("XX", "X", "say what is wrong in an issue"),
    ("/wo", "rk/", "a path of someone's machine"),
    ("/ro", "ot/", "a path of someone's machine"),
    ("/tmp/", "t-", "a path of someone's machine"),
    ("crates", ".io", "an address of a registry"),
    ("pypi", ".org", "an address of a registry"),
    ("npmjs", ".", "an address of a registry"),
    ("registry", ".npm", "an address of a registry"),
    ("proxy.gol", "ang", "an address of a registry"),
];

/// The lines of the file with a word of the list.
pub fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (start, end, advice) in WORDS {
        let word = format!("{start}{end}");
        if !file.text.contains(&word) {
            continue;
        }
        for (number, line) in file.text.lines().enumerate() {
            if line.match_indices(&word).any(|(at, _)| stands_alone(line, at, &word)) {
                findings.push(file.finding(number + 1, format!("`{word}`: {advice}")));
            }
        }
    }
    findings
}

/// Whether the match is not part of a longer word or path (`XXXXXX` of mkstemp, `a/work/b`).
fn stands_alone(line: &str, at: usize, word: &str) -> bool {
    let continues = |character: char| character.is_alphanumeric() || character == '_';
    let joins = |character: char| {
        continues(character) || (word.starts_with('/') && "./-*}~".contains(character))
    };
    let before = line[..at].chars().next_back().is_some_and(joins);
    let after = word.ends_with(continues)
        && !word.contains('.')
        && line[at + word.len()..].starts_with(continues);
    !before && !after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<usize> {
        check(&SourceFile { path: "a.md".into(), text: text.into() })
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn every_word_is_found() {
        for (start, end, _) in WORDS {
            assert_eq!(findings(&format!("fine\nsee {start}{end} here\n")), [2], "{start}{end}");
        }
    }

    #[test]
    fn longer_words_are_left_alone() {
        let text =
            ["mkstemp(\"XX", "XXXX\")\ncrates/wo", "rk/file, ../wo", "rk/x\nmy_todo", "_list!()\n"]
                .concat();
        assert_eq!(findings(&text), [0usize; 0]);
    }
}
