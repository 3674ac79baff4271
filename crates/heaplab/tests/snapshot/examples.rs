//! The examples of each command's help.

use super::*;

const COMMANDS: [&str; 18] = [
    "take",
    "watch",
    "open",
    "summary",
    "retainers",
    "path",
    "dominators",
    "object",
    "strings",
    "diff",
    "leaks",
    "check",
    "query",
    "redact",
    "trim",
    "convert",
    "repair",
    "validate",
];

/// What stands in the help from its examples on.
fn examples(command: &str) -> String {
    let help = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["snapshot", command, "--help"])
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    let help = text(&help);
    let at = help.find("Examples:\n").unwrap_or_else(|| panic!("{command}: {help}"));
    help[at..].to_owned()
}

#[test]
fn every_command_shows_examples_that_fit_a_narrow_terminal() {
    for command in COMMANDS {
        let shown = examples(command);
        assert!(shown.contains(&format!("\n  heaplab snapshot {command} ")), "{command}: {shown}");
        assert_eq!(shown.lines().find(|line| line.chars().count() > 80), None, "{command}");
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_example_can_be_copied_and_run() {
    let (files, path) = Files::with("node12-weak");
    let small = files.path("small.heapsnapshot");
    text(&heaplab(&["trim"], &path, &["Session", "--objects", "3", "-o", small.to_str().unwrap()]));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&small).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "what has secrets is its owner's alone");
    let bytes = std::fs::read(&small).unwrap();
    for name in ["a", "b", "python", "leak.1", "leak.2", "leak.3", "base", "target", "final"] {
        std::fs::write(files.path(&format!("{name}.heapsnapshot")), &bytes).unwrap();
    }
    std::fs::write(files.path("a.heapsnapshot.part"), &bytes).unwrap();
    std::fs::create_dir(files.path("src")).unwrap();
    for (name, content) in [("src/app.js", "let x"), ("src/api.js", "let y"), ("key", "a secret")] {
        std::fs::write(files.path(name), content).unwrap();
    }
    let id = json(&heaplab(
        &["query"],
        &small,
        &["where class = \"Session\" | top 1 | select id", "--json"],
    ))["rows"][0]["id"]
        .to_string();
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_heaplab")).parent().unwrap().to_owned();
    let search = std::env::join_paths(
        [folder].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    )
    .unwrap();
    let has_jq = heaplab_oracle::has("jq");
    let (mut ran, mut wrong) = (0, Vec::new());
    for command in COMMANDS.into_iter().filter(|command| !["take", "watch"].contains(command)) {
        let shown = examples(command)
            .replace(" \\\n      ", " ")
            .replace("@4711", &format!("@{id}"))
            .replace("grep ...", "grep -c 3");
        for line in shown
            .lines()
            .filter_map(|line| line.strip_prefix("  ").filter(|line| line.starts_with("heaplab ")))
            .filter(|line| !line.starts_with("heaplab snapshot take"))
            // A page is served until somebody ends it (tests/snapshot_page.rs).
            .filter(|line| !line.contains(" --serve"))
            .filter(|line| has_jq || !line.contains("| jq "))
        {
            // What is behind spaces is said of it.
            let line = line.split_once("   ").map_or(line, |(line, _)| line);
            let output = Command::new("bash")
                .args(["-o", "pipefail", "-c", line])
                .env("PATH", &search)
                .current_dir(files.0.path())
                .output()
                .unwrap();
            let said = text_of(&output.stdout) + &text_of(&output.stderr);
            // What it asks for need not be there: an assertion that fails, a class that the file
            // has not.
            let absent = matches!(output.status.code(), Some(1 | 2))
                && ["FAILED  ", "no object is of a class", "none passes --filter"]
                    .iter()
                    .any(|words| said.contains(words));
            if !output.status.success() && !absent {
                wrong.push(format!("{line}: {} {said}", output.status));
            }
            ran += 1;
        }
    }
    assert!(ran > 30 && wrong.is_empty(), "{ran}: {}", wrong.join("\n"));
}
