//! Checks the tree for the house rules that a machine can see: length of files and functions, width
//! of comments and documents, module docs, SAFETY sentences, unwanted words, marks that no test
//! expects, arrows between crates (the table of ARCHITECTURE.md), and the requirements of published
//! crates.
//!
//! The idea is TigerBeetle's tidy. Each rule is a function from one file to findings and knows no
//! other rule; this file walks the tree and prints. Rules that need a compiler (missing docs,
//! formatting, lints) are left to clippy and rustfmt.

mod arrows;
mod code;
mod columns;
mod families;
mod length;
mod marks;
mod packages;
mod rust;
mod walk;
mod words;

use anyhow::{Context, Result, bail};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// Larger text files are data, not written by people.
const TEXT_MAX_BYTES: u64 = 1 << 20;
/// Folders of generated or downloaded things.
const SKIPPED_FOLDERS: [&str; 7] =
    ["target", "node_modules", "corpus", "artifacts", "__pycache__", "venv", "heaplab-tour"];

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    file: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// A text file of the tree, its path relative to the root.
#[derive(Debug)]
struct SourceFile {
    path: String,
    text: String,
}

impl SourceFile {
    fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { file: self.path.clone(), line, message: message.into() }
    }

    fn extension(&self) -> &str {
        Path::new(&self.path)
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default()
    }
}

/// Checks the tree and prints findings as `file:line: message`.
pub fn run() -> Result<()> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent folder")?;
    let files = read_tree(root)?;
    let mut findings: Vec<Finding> = files.iter().flat_map(check).collect();
    findings.extend(arrows::check(&files));
    findings.extend(families::check(&files));
    findings.extend(marks::check(&files));
    findings.extend(packages::check(&files));
    findings.extend(length::places(&files));
    findings.extend(walk::check(&files));
    for long in files.iter().filter_map(length::nearly_too_long) {
        eprintln!("{long}");
    }
    println!("tidy: {}", length::summary(&files));
    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} untidy places", findings.len());
    }
    Ok(())
}

/// All rules that look at one file.
fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = words::check(file);
    findings.extend(length::file(file));
    findings.extend(columns::check(file));
    match file.extension() {
        "rs" => {
            let code = code::Code::of_rust(&file.text);
            findings.extend(length::functions(file, &code));
            findings.extend(rust::check(file, &code));
        }
        "c" | "h" => {
            findings.extend(length::functions(file, &code::Code::of_c(&file.text)));
            if !file.text.starts_with("/*") && !file.text.starts_with("//") {
                findings.push(
                    file.finding(1, "begin with a comment: what this is, why it is so, its source"),
                );
            }
        }
        _ => {}
    }
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// Every text file below `root`, sorted by path.
fn read_tree(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
        {
            let entry = entry?;
            let name = entry.file_name();
            let kind = entry.file_type()?;
            let hidden =
                name.as_encoded_bytes().starts_with(b".") && name != ".ci" && name != ".cargo";
            if kind.is_dir() && !hidden && !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                folders.push(entry.path());
            } else if kind.is_file()
                && !hidden
                && name != "Cargo.lock"
                && entry.metadata()?.len() <= TEXT_MAX_BYTES
            {
                files.extend(read_text(root, entry.path())?);
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The file, unless it is binary.
fn read_text(root: &Path, path: PathBuf) -> Result<Option<SourceFile>> {
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let relative = path.strip_prefix(root)?.to_string_lossy().into_owned();
    Ok(String::from_utf8(bytes).ok().map(|text| SourceFile { path: relative, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_applied_to_one_bad_file() {
        let file = SourceFile {
            path: "crates/trace/src/bad.rs".into(),
            text: format!("fn f() {{\n    {}!()\n}}\n", "todo"),
        };
        let lines: Vec<_> = check(&file).iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("crates/trace/src/bad.rs:1: open the module"), "{lines:?}");
        assert!(lines[1].starts_with("crates/trace/src/bad.rs:2: "), "{lines:?}");
    }

    #[test]
    fn the_tree_is_read_with_this_file_in_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let files = read_tree(root).unwrap();
        assert!(files.iter().any(|file| file.path == "xtask/src/tidy.rs"));
        assert!(files.iter().any(|file| file.path == ".ci/run"));
        assert!(
            !files
                .iter()
                .any(|file| file.path.contains("target/") || file.path.ends_with("Cargo.lock"))
        );
    }
}
