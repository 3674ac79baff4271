//! The header and the static library, used by a program in C.

use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) -> String {
    let output =
        command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// The static library, built as the header says, next to this test's own build.
fn library(here: &Path) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    run(Command::new(env!("CARGO"))
        .current_dir(here)
        .args([
            "rustc",
            "--quiet",
            "--offline",
            "--package",
            "heaplab-elastic",
            "--lib",
            "--features",
            "c-interface",
        ])
        .args(["--crate-type", "staticlib", "--target-dir"])
        .arg(target));
    target.join("debug/libheaplab_elastic.a")
}

#[test]
fn a_program_in_c_finds_everything_as_the_header_says() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = library(here);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    for (standard, name) in [("-std=c11", "c11"), ("-std=gnu17", "gnu17")] {
        let program = folder.join(format!("elastic-{name}"));
        run(Command::new(&compiler)
            .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-o"])
            .arg(&program)
            .arg("-I")
            .arg(here.join("include"))
            .arg(here.join("tests/c/program.c"))
            .arg(&library)
            .args(["-lpthread", "-lm", "-ldl"]));
        assert_eq!(run(&mut Command::new(&program)), "passed\n");
    }
}
