//! `cargo run` in the repository, as somebody types it who has just cloned it; and `heaplab` alone.

use std::path::Path;
use std::process::{Command, Output};

fn heaplab(folder: &Path, arguments: &[&str]) -> Output {
    // One block of timed cells, because those of a debug build take long and mean nothing.
    let environment = [
        ("HEAPLAB_TOUR_REPS", "1"),
        ("COLUMNS", "80"),
        ("CARGO", "cargo"),
        ("CARGO_PKG_NAME", "heaplab"),
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(arguments)
        .current_dir(folder)
        .envs(environment)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Every heap's time stands in its row, in the verdict and on the page, and it is what the cells of
/// this run took. Nothing is said of how long that is.
fn assert_times_are_measured(text: &str, page: &str, heaps: &[&str], folder: &Path) {
    let kept =
        std::fs::read(folder.join("heaplab-tour/sqlite.heaplab/replay-cells/replays-all.json"))
            .unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    let replay = &kept["replays"][0];
    assert_eq!(
        (&replay["settings"]["reps"], replay["heaps"].as_array().unwrap().len()),
        (&serde_json::json!(1), heaps.len())
    );
    let table = text.split_once("\n time ").unwrap().1.split_once("\n\n").unwrap().0;
    assert!(table.lines().next().unwrap().contains("ns an event"), "{table}");
    let mut shown = Vec::new();
    for (heap, result) in heaps.iter().zip(replay["heaps"].as_array().unwrap()) {
        assert_eq!(
            (result["heap"].as_str(), result["failures"].as_array().map(Vec::len)),
            (Some(*heap), Some(0)),
            "{}",
            result["failures"]
        );
        let number = |name: &str| {
            result["time"][name]
                .as_f64()
                .unwrap_or_else(|| panic!("{heap} has no {name}: {}", result["time"]))
        };
        let (own, driver) = (
            result["time"]["ns_per_event"]["value"].as_f64().unwrap(),
            number("driver_ns_per_event"),
        );
        // What a cell took is more than nothing. Less the driver's own, which a debug build does
        // not spare, it may be anything.
        assert!(driver > 0.0 && own + driver > 0.0, "{heap}: {}", result["time"]);
        assert_eq!(result["time"]["blocks_ns_per_event"], serde_json::json!([own]));
        let row = table
            .lines()
            .find(|line| line.split_whitespace().next() == Some(heap))
            .unwrap_or_else(|| panic!("no row of {heap}:\n{table}"));
        let cell =
            row.split_whitespace().nth(1).unwrap_or_else(|| panic!("{heap} has no time: {row}"));
        assert_eq!(cell, format!("{own:.1}"), "{heap}: {row}");
        assert!(
            *heap == "glibc" || text.replace("\n ", "").contains(&format!("({cell} ns against ")),
            "no verdict on the time of {heap}:\n{text}"
        );
        let on_page = page
            .split_once(&format!("\"name\":\"{heap}\""))
            .and_then(|(_, rest)| rest.split_once("\"event_ns\":"))
            .unwrap()
            .1;
        assert!(
            on_page.starts_with(&serde_json::to_string(&own).unwrap()),
            "{heap}: {own} is not on the page"
        );
        shown.push(own.to_bits());
    }
    shown.sort_unstable();
    shown.dedup();
    assert_eq!(shown.len(), heaps.len(), "two heaps took the same to the last digit: {table}");
}

#[test]
fn heaplab_alone_says_what_to_type_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    let output = command
        .current_dir(folder.path())
        .env_remove("CARGO_PKG_NAME")
        .env("COLUMNS", "60")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{said}");
    for command in [
        "heaplab record -- ./app ",
        "heaplab report app.heaplab ",
        "heaplab tour ",
        "heaplab --help ",
    ] {
        assert!(said.contains(command), "{said}");
    }
    assert!(
        said.lines().count() < 24 && said.lines().all(|line| line.chars().count() <= 60),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
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
        "\n space ",
        "\n time ",
        "\nSpace: ",
        "\nTime: ",
        "$ heaplab report heaplab-tour/sqlite.heaplab --html heaplab-tour/report.html\n",
        "Your own program next:\n  heaplab record -o app.heaplab -- PROGRAM ARGUMENTS\n",
    ];
    let mut rest = text.as_str();
    for part in shown {
        rest = rest
            .split_once(part)
            .unwrap_or_else(|| panic!("{part:?} is not where it should be:\n{text}"))
            .1;
    }
    // The commands are for pasting, and stay whole.
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= 80 || line.starts_with("$ heaplab replay ")),
        "{text}"
    );

    let command = text.lines().find(|line| line.starts_with("$ heaplab replay ")).unwrap();
    let heaps: Vec<&str> = command.split(' ').nth(5).unwrap().split(',').collect();
    assert!(
        heaps.len() >= 9
            && ["glibc", "jemalloc", "mimalloc", "elastic", "metaspace:jdk17"]
                .iter()
                .all(|heap| heaps.contains(heap)),
        "{heaps:?}"
    );
    let page = std::fs::read_to_string(folder.path().join("heaplab-tour/report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    assert_times_are_measured(&text, &page, &heaps, folder.path());
    for heap in heaps {
        let verdict = format!("Space: {heap} ");
        assert!(heap == "glibc" || text.contains(&verdict), "no verdict on {heap}:\n{text}");
        assert!(page.contains(&format!("\"name\":\"{heap}\"")), "{heap} is not on the page");
    }
    assert!(String::from_utf8_lossy(&output.stderr).contains("heaplab-tour/report.html written"));

    // The recording is a bundle like any other; named alone, it is reported on.
    let again = heaplab(folder.path(), &["report", "heaplab-tour/sqlite.heaplab", "--top", "1"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("What to change"));
    assert_eq!(
        heaplab(folder.path(), &["heaplab-tour/sqlite.heaplab", "--top", "1"]).stdout,
        again.stdout
    );
    let escapes = |arguments: &[&str]| heaplab(folder.path(), arguments).stdout.contains(&0x1b);
    assert!(
        !escapes(&["heaplab-tour/sqlite.heaplab"])
            && escapes(&["heaplab-tour/sqlite.heaplab", "--color", "always"])
    );
}
