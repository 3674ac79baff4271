//! Everything that heaplab prints for a person fits 80 columns, and its help 60: on the recording
//! and the snapshots that are in this repository.
//!
//! What cannot be shortened without loss (a path that the user wrote) is short here.

mod bundled;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a command prints, whatever its exit code.
fn printed(folder: &Path, columns: Option<u32>, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    command.args(arguments).current_dir(folder).env_remove("COLUMNS");
    if let Some(columns) = columns {
        command.env("COLUMNS", columns.to_string());
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        !text.is_empty(),
        "{arguments:?} printed nothing: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

fn assert_fits(text: &str, columns: usize, arguments: &[&str]) {
    for line in text.lines() {
        assert!(
            line.chars().count() <= columns,
            "heaplab {}: {} columns: {line}",
            arguments.join(" "),
            line.chars().count()
        );
    }
}

#[test]
fn every_help_fits_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(words) = waiting.pop() {
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let text = printed(folder.path(), None, &arguments);
        assert_fits(&text, 80, &arguments);
        // clap breaks no line of usage, and nobody a word.
        let narrow = printed(folder.path(), Some(60), &arguments);
        let is_one_word = |line: &str| !line.trim().trim_end_matches(" \\").contains(' ');
        let narrow: Vec<&str> = narrow
            .lines()
            .filter(|line| !line.starts_with("Usage: ") && !is_one_word(line))
            .collect();
        assert_fits(&narrow.join("\n"), 60, &arguments);
        let commands = text
            .lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| !line.is_empty());
        for name in commands.filter_map(|line| {
            line.strip_prefix("  ")?
                .split(' ')
                .next()
                .filter(|name| !name.is_empty() && *name != "help")
        }) {
            waiting.push(words.iter().cloned().chain([name.to_string()]).collect());
        }
        seen += 1;
    }
    assert!(seen > 20, "{seen} commands have help");
}

#[test]
fn what_is_refused_fits_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let refused: [&[&str]; 6] = [
        &["replay"],
        &["replay", "a.heaplab", "--touch", "some"],
        &["replay", "a.heaplab", "--spaced", "--on", "glibc"],
        &["report", "a.heaplab", "--at", "1", "--between", "2", "3", "--allocator", "nobodys"],
        &["record"],
        &["expotr", "a.heaplab"],
    ];
    for (arguments, columns) in
        refused.into_iter().flat_map(|arguments| [80, 60, 100].map(|columns| (arguments, columns)))
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
        let output = command
            .args(arguments)
            .current_dir(folder.path())
            .env("COLUMNS", columns.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2)
                && said.starts_with("error: ")
                && !said.contains('\x1b'),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("For more information, try '--help'."), "{said}");
        assert_fits(&said, columns, arguments);
    }
}

#[test]
fn reports_and_lists_fit_eighty_columns() {
    let folder = tempfile::tempdir().unwrap();
    let program = bundled::copied("sqlite", folder.path());
    std::fs::rename(program, folder.path().join("s.heaplab")).unwrap();
    let log = repository().join("crates/jvm/tests/data/jvm-log/jdk-17.0.15.log.gz");
    std::fs::copy(log, folder.path().join("jvm.log.gz")).unwrap();
    let commands: [&[&str]; 14] = [
        &["heaps"],
        &["compare", "s.heaplab", "s.heaplab", "--top", "40"],
        &["check", "s.heaplab", "--assert", "peak < 1kB && leaked(sqlite3_step) == 0"],
        &["report", "s.heaplab", "--top", "40"],
        &["report", "s.heaplab", "--at", "100ms"],
        &["report", "s.heaplab", "--between", "100ms", "200ms"],
        &["symbolize", "s.heaplab"],
        &["replay", "s.heaplab", "--on", "glibc,mimalloc", "--space"],
        &["import", "jvm.log.gz", "-o", "jvm.heaplab"],
        &["report", "jvm.heaplab"],
        &["report", "jvm.heaplab", "--at", "100ms"],
        &["report", "jvm.heaplab", "--between", "100ms", "200ms"],
        &["report", "jvm.heaplab", "--blocks"],
        &["report", "jvm.heaplab", "--model", "metaspace:jdk17"],
    ];
    for arguments in commands {
        assert_fits(&printed(folder.path(), None, arguments), 80, arguments);
    }
}

#[test]
fn answers_about_snapshots_fit_eighty_columns() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in [("node20-names", "a"), ("node24-tracking", "b"), ("chromium-dom", "c")] {
        let packed = std::fs::File::open(
            repository().join(format!("crates/snapshot/tests/devtools/{from}.heapsnapshot.gz")),
        )
        .unwrap();
        let mut content = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut content).unwrap();
        std::fs::write(folder.path().join(to), content).unwrap();
    }
    let commands: [&[&str]; 17] = [
        &["summary", "a"],
        &["summary", "c", "--class", "Detached *"],
        &["dominators", "b", "--depth", "6"],
        &["dominators", "a", "Object"],
        &["strings", "a"],
        &["strings", "c", "--all"],
        &["validate", "b"],
        &["query", "c", "top 10"],
        &["query", "c", "group type"],
        &["path", "b", "Object"],
        &["path", "c", "Object"],
        &["retainers", "b", "Object", "--depth", "3"],
        &["object", "b", "Object"],
        &[
            "check",
            "a",
            "--assert",
            "retained(\"Object\") / total() + count(\"Session\") * 3 < 1 and distance(Array) < 30 and total() < 10",
        ],
        &["diff", "a", "b"],
        &["diff", "a", "b", "--class", "Object"],
        &["diff", "a", "b", "b"],
    ];
    for command in commands {
        let arguments: Vec<&str> = ["snapshot"].iter().chain(command).copied().collect();
        assert_fits(&printed(folder.path(), None, &arguments), 80, &arguments);
    }
}

#[test]
fn help_says_what_is_not_obvious() {
    let folder = tempfile::tempdir().unwrap();
    let words = |command: &str| {
        printed(folder.path(), None, &[command, "--help"])
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    // A module whose build id nobody recorded may have been built again since.
    assert!(words("symbolize").contains("the file is taken by its name"));
    assert!(words("mark").contains("heaplab mark --header > heaplab.h"));
}
