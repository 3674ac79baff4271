//! The files that ARCHITECTURE.md's walk names ("Follow one malloc") exist.
//!
//! A name with folders is the end of a path. A name without one is a file beside the last name with
//! folders.

use super::{Finding, SourceFile};

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Follow one malloc";

/// Names of the walk without a file.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else { return Vec::new() };
    let lines = document.text.lines().enumerate().skip_while(|(_, line)| *line != HEADING);
    let section =
        lines.enumerate().take_while(|(at, (_, line))| *at == 0 || !line.starts_with("## "));
    let mut folder = "";
    let mut findings = Vec::new();
    for (_, (number, line)) in section {
        for name in line.split('`').skip(1).step_by(2).filter(|name| is_source(name)) {
            let beside = format!("/{folder}/{name}");
            let end = match name.rsplit_once('/') {
                Some((named, _)) => {
                    folder = named;
                    format!("/{name}")
                }
                None => beside,
            };
            if !files.iter().any(|file| file.path.ends_with(&end)) {
                findings.push(document.finding(number + 1, format!("there is no file {end}")));
            }
        }
    }
    findings
}

fn is_source(name: &str) -> bool {
    [".rs", ".c", ".h"].iter().any(|extension| name.ends_with(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_file_is_found() {
        let of = |walk: &str| {
            let text = format!("`a.rs`\n{HEADING}\n\n{walk}\n\n## The crates\n`b.rs`\n");
            let document = SourceFile { path: DOCUMENT.into(), text };
            let there = ["crates/record/src/session.rs", "crates/record/src/drain.rs"]
                .map(|path| SourceFile { path: path.into(), text: String::new() });
            let files: Vec<SourceFile> = there.into_iter().chain([document]).collect();
            check(&files).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(of("`record/src/session.rs` and `drain.rs` of `events.parquet`").is_empty());
        assert_eq!(
            of("`record/src/session.rs`,\n`merge.rs`"),
            ["ARCHITECTURE.md:5: there is no file /record/src/merge.rs"]
        );
        assert_eq!(of("`trace/src/drain.rs`").len(), 1);
    }
}
