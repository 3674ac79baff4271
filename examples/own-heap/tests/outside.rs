//! The example copied out of the repository, as a user begins with it: it builds there, and prints
//! a comparison with intervals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Copies the files of a folder, without folders in it (the kept replays of a bundle).
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let entries = fs::read_dir(from).unwrap().map(Result::unwrap);
    for entry in entries.filter(|entry| entry.file_type().unwrap().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The repository's manifest for a workspace elsewhere: versions and lints as they are, heaplab's
/// crates by their paths. The profiles of other packages stay, so that cargo finds them built;
/// heaplab's crates are built again in any case, and fastest without their profiles.
fn manifest(repository: &Path) -> String {
    let text = fs::read_to_string(repository.join("Cargo.toml")).unwrap();
    let line = |line: &str| match line.split_once(" = ").map(|(key, _)| key) {
        Some("members") => String::from("members = [\"own-heap\"]"),
        Some("exclude" | "default-members") => String::new(),
        _ => line.replace("path = \"", &format!("path = \"{}/", repository.display())),
    };
    let mut is_left_out = false;
    let mut kept = String::new();
    for text in text.lines() {
        if text.starts_with('[') {
            is_left_out = text.starts_with("[profile.dev.package.heaplab");
        }
        if !is_left_out {
            kept += &(line(text) + "\n");
        }
    }
    // heaplab's crates are other packages there, and without debug assertions. Only with them are
    // timed cells and the canary short.
    for name in ["experiment", "replay"] {
        kept += &format!("[profile.dev.package.heaplab-{name}]\ndebug-assertions = true\n");
    }
    kept
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn it_builds_outside_of_the_repository_and_compares() {
    let repository = repository();
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own-heap");
    copied(&repository.join("examples/own-heap/src"), &own.join("src"));
    fs::copy(repository.join("examples/own-heap/Cargo.toml"), own.join("Cargo.toml")).unwrap();
    fs::copy(repository.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    fs::write(folder.path().join("Cargo.toml"), manifest(&repository)).unwrap();
    copied(&repository.join("traces/python.heaplab"), &folder.path().join("app.heaplab"));

    // Crates from the registry are in the repository's target folder already.
    let target = repository.join("target");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "--target-dir"])
        .arg(&target)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", said(&built));
    let program = target.join("debug/own-heap");
    let ran = Command::new(program).arg("app.heaplab").current_dir(folder.path()).output().unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    let said = said(&ran);
    for measure in ["space", "time"] {
        let begin = format!("{measure} of segregated over glibc: ");
        let line = said.lines().find_map(|line| line.strip_prefix(&begin)).expect(&said);
        let numbers: Vec<f64> =
            line.split([' ', '(', ')']).filter_map(|word| word.parse().ok()).collect();
        assert_eq!(numbers.len(), 3, "{line}");
        assert!(numbers[1] <= numbers[0] && numbers[0] <= numbers[2], "{line}");
    }
}
