//! `heaplab` alone, as somebody runs it who has just built it.

use std::path::Path;
use std::process::{Command, Output};

fn heaplab(folder: &Path, arguments: &[&str]) -> Output {
    // Timed cells of a debug build take minutes and mean nothing.
    let environment = [("HEAPLAB_TOUR_REPS", "0"), ("COLUMNS", "80")];
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab")).args(arguments).current_dir(folder).envs(environment).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn the_tour_shows_the_report_every_heap_and_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let output = heaplab(folder.path(), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    // In this order, and each once: what it says it runs, and something of what that prints.
    let shown = [
        "$ heaplab report heaplab-tour/sqlite.heaplab\n",
        "\nWhat to change\n",
        "1,032",
        "$ heaplab replay heaplab-tour/sqlite.heaplab --on glibc,",
        "\nSpace: ",
        "$ heaplab report heaplab-tour/sqlite.heaplab --html heaplab-tour/report.html\n",
        "Your own program next:\n  heaplab record -o app.heaplab -- PROGRAM ARGUMENTS\n",
    ];
    let mut rest = text.as_str();
    for part in shown {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is not where it should be:\n{text}")).1;
    }
    // The commands are for pasting, and stay whole.
    assert!(text.lines().all(|line| line.chars().count() <= 80 || line.starts_with("$ heaplab replay ")), "{text}");

    let command = text.lines().find(|line| line.starts_with("$ heaplab replay ")).unwrap();
    let heaps: Vec<&str> = command.split(' ').nth(5).unwrap().split(',').collect();
    assert!(
        heaps.len() >= 9 && ["glibc", "jemalloc", "mimalloc", "elastic", "metaspace:jdk17"].iter().all(|heap| heaps.contains(heap)),
        "{heaps:?}"
    );
    let page = std::fs::read_to_string(folder.path().join("heaplab-tour/report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    for heap in heaps {
        let verdict = format!("Space: {heap} ");
        assert!(heap == "glibc" || text.contains(&verdict), "no verdict on {heap}:\n{text}");
        assert!(page.contains(&format!("\"name\":\"{heap}\"")), "{heap} is not on the page");
    }
    assert!(String::from_utf8_lossy(&output.stderr).contains("heaplab-tour/report.html written"));

    // The recording is a bundle like any other.
    let again = heaplab(folder.path(), &["report", "heaplab-tour/sqlite.heaplab", "--top", "1"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("What to change"));
}
