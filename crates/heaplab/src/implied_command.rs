//! The meaning of a command line without a command: empty, or a recording alone.

use heaplab_terminal as terminal;
use heaplab_text::lines;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// `--reps` of the tour that `cargo run` takes, for a debug build (CONTRIBUTING.md).
const REPS_VARIABLE: &str = "HEAPLAB_TOUR_REPS";

/// The words of the command line, the program's name first, with the command that they leave out:
/// `heaplab APP.heaplab` is `heaplab report APP.heaplab`, and `cargo run` in the repository is the
/// tour.
pub fn with_command(
    mut words: Vec<OsString>,
    is_command: impl Fn(&OsStr) -> bool,
) -> Vec<OsString> {
    match words.get(1) {
        None if is_run_by_cargo() => {
            words.push("tour".into());
            if let Some(reps) = env::var_os(REPS_VARIABLE) {
                words.extend(["--reps".into(), reps]);
            }
        }
        Some(word) if !is_command(word) && is_recording(Path::new(word)) => {
            words.insert(1, "report".into())
        }
        _ => {}
    }
    words
}

/// Whether `cargo run` started this in heaplab's repository: cargo names the package that it runs.
fn is_run_by_cargo() -> bool {
    env::var_os("CARGO").is_some()
        && env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == env!("CARGO_PKG_NAME"))
}

fn is_recording(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("heaplab")) || path.join("meta.json").exists()
}

/// A first help: the purpose of heaplab, and the first commands to type.
pub fn welcome() -> String {
    const WHAT: &str = "heaplab is a laboratory for memory managers: it records what a program allocates, says where the bytes go and \
                        what to change, and runs the same workload on other heaps.";
    const COMMANDS: [(&str, &str); 6] = [
        ("heaplab record -- ./app", "record a program and its children"),
        ("heaplab report app.heaplab", "where the bytes go, what to change"),
        ("heaplab replay app.heaplab", "the same workload on other heaps"),
        ("heaplab snapshot --help", "heaps of JavaScript: Node, Chromium"),
        ("heaplab tour", "all of it on a bundled recording"),
        ("heaplab --help", "every command"),
    ];
    let columns = terminal::columns();
    let list: String = COMMANDS
        .iter()
        .map(|(command, what)| lines::paragraph(what, &format!("  {command}"), 31, columns))
        .collect();
    format!("{}\n{list}", lines::paragraph(WHAT, "", 0, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_alone_is_reported_on() {
        let meant = |line: &str| {
            let words = with_command(line.split(' ').map(OsString::from).collect(), |word| {
                word == "report"
            });
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(meant("heaplab app.heaplab --top 3"), "heaplab report app.heaplab --top 3");
        assert_eq!(meant("heaplab app.heaplab/"), "heaplab report app.heaplab/");
        for same in [
            "heaplab report app.heaplab",
            "heaplab --help",
            "heaplab repotr app.heaplab",
            "heaplab app.txt",
        ] {
            assert_eq!(meant(same), same);
        }
    }
}
