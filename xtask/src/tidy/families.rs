//! All heaps' folders have the same files: constants with their sources, choices as plain data, the
//! heap, its invariants.
//!
//! A folder below `crates/heaps` with one of the files below holds a design of its own, and must
//! have all of them. Wrappers of real allocators and runtimes have none.

use super::{Finding, SourceFile};

const FILES: [&str; 4] = ["facts.rs", "strategy.rs", "heap.rs", "check.rs"];

/// The files that are missing.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let has = |path: &str| files.iter().any(|file| file.path == path);
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/heaps/")) {
        let Some((folder, name)) = file.path.rsplit_once('/') else { continue };
        let is_first_sign = FILES.iter().find(|one| has(&format!("{folder}/{one}"))) == Some(&name);
        if !is_first_sign || !folder.contains("/src") {
            continue;
        }
        for missing in FILES.iter().filter(|one| !has(&format!("{folder}/{one}"))) {
            findings.push(file.finding(
                1,
                format!("a design's folder has {}; {missing} is missing", FILES.join(", ")),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_has_all_four_files_and_a_wrapper_none() {
        let tree = |paths: &[&str]| -> Vec<String> {
            let file = |path: &&str| SourceFile { path: path.to_string(), text: String::new() };
            check(&paths.iter().map(file).collect::<Vec<_>>())
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        let sound = ["facts.rs", "strategy.rs", "heap.rs", "check.rs"]
            .map(|name| format!("crates/heaps/v8/src/{name}"));
        assert!(tree(&sound.each_ref().map(String::as_str)).is_empty());
        assert!(
            tree(&[
                "crates/heaps/system/src/lib.rs",
                "crates/heap/src/heap.rs",
                "crates/size-class/src/strategy.rs"
            ])
            .is_empty()
        );
        let broken = tree(&["crates/heaps/v8/src/old/heap.rs", "crates/heaps/v8/src/old/check.rs"]);
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(
            broken[0].starts_with("crates/heaps/v8/src/old/heap.rs:1: ")
                && broken[0].ends_with("facts.rs is missing"),
            "{broken:?}"
        );
        assert_eq!(tree(&["crates/heaps/textbook/src/check.rs"]).len(), 3);
    }
}
