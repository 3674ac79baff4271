//! `heaplab compare` on real builds of a program: recorded twice, and built otherwise.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn heaplab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(arguments)
        .current_dir(folder)
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

/// Builds `tests/data/builds.c`, changed as `edit` says, and records it.
fn recorded(folder: &Path, name: &str, flags: &[&str], edit: fn(&str) -> String) {
    recorded_of("builds", folder, name, flags, edit);
}

/// Builds a program of `tests/data`, changed as `edit` says, and records it.
fn recorded_of(program: &str, folder: &Path, name: &str, flags: &[&str], edit: fn(&str) -> String) {
    let file = format!("{program}.c");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(&file);
    let text = std::fs::read_to_string(source).unwrap();
    std::fs::write(folder.join(&file), edit(&text)).unwrap();
    let built =
        Command::new("cc").args(flags).args(["-o", program, &file]).current_dir(folder).status();
    assert!(built.expect("a C compiler").success());
    let bundle = format!("{name}.heaplab");
    let output = heaplab(folder, &["record", "-o", &bundle, "--", &format!("./{program}")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn moved(text: &str) -> String {
    format!("{}{text}", "\n".repeat(20))
}

fn compared(folder: &Path, arguments: &[&str]) -> Value {
    let output = heaplab(folder, &[&["compare", "--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const APART: &str = "-DPARSE=__attribute__((noinline))";
const INLINED: &str = "-DPARSE=inline __attribute__((always_inline))";

#[test]
fn builds_with_other_lines_and_other_inlining_are_matched() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, "apart", &["-O0", "-g", APART], str::to_owned);
    recorded(folder, "again", &["-O0", "-g", APART], str::to_owned);
    recorded(folder, "inlined", &["-O2", "-g", INLINED], moved);
    // Without debug information nobody knows what was inlined: the frame is gone.
    recorded(folder, "bare", &["-O2", INLINED], moved);

    let twice = compared(folder, &["apart.heaplab", "again.heaplab"]);
    assert_eq!(twice["verdict"]["outcome"], "same");
    for figure in twice["figures"].as_array().unwrap() {
        // Resident memory is the system's, and no two runs have the same.
        assert!(figure["figure"] == "resident_bytes" || figure["difference"] == 0, "{figure}");
    }

    for (other, is_known) in [("inlined.heaplab", true), ("bare.heaplab", false)] {
        let built = compared(folder, &["apart.heaplab", other]);
        assert_eq!(built["verdict"]["outcome"], "same", "{}", built["verdict"]);
        let stacks = built["stacks"].as_array().unwrap();
        let stack = stacks.iter().find(|row| row["stack"][0] == "parse_header").unwrap();
        assert_eq!((&stack["presence"], &stack["stack"][1]), (&"both".into(), &"load".into()));
        assert_eq!(stack["inlined"], !is_known, "{stack}");
        assert_eq!(stack["live_bytes"]["difference"], 0);
        assert_eq!(stack["live_objects"]["after"], 1000);
        let functions = built["functions"].as_array().unwrap();
        assert!(functions.iter().all(|row| row["function"] != "load"), "{functions:?}");
        if is_known {
            let line = &stack["lines"][0];
            let lines = [&line["before"], &line["after"]].map(|line| line.as_u64().unwrap());
            assert_eq!(lines[0] + 20, lines[1]);
        }
    }
}

#[test]
fn growth_is_an_exit_code_and_a_spread_takes_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, "before", &["-O0", "-g", APART], str::to_owned);
    let larger = |text: &str| text.replace("malloc(100", "malloc(120");
    recorded(folder, "after", &["-O0", "-g", APART], larger);

    let code = |arguments: &[&str]| {
        let output = heaplab(folder, &[&["compare"], arguments].concat());
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (plain, text) = code(&["before.heaplab", "after.heaplab"]);
    assert_eq!(plain, 0);
    let first = "After needs 19.5 KiB more at the peak (+";
    assert!(text.lines().nth(1).unwrap().starts_with(first), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let sentence = text.replace('\n', " ");
    assert!(sentence.contains("because parse_header holds 19.5 KiB more."), "{text}");
    assert_eq!(code(&["before.heaplab", "after.heaplab", "--fail-over", "2%"]).0, 1);
    let over =
        heaplab(folder, &["compare", "before.heaplab", "after.heaplab", "--fail-over", "10kB"]);
    let why = String::from_utf8(over.stderr).unwrap();
    assert!(
        why.contains("live bytes (peak) grew by 19.5 KiB; --fail-over allows 9.77 KiB"),
        "{why}"
    );
    assert_eq!(code(&["before.heaplab", "after.heaplab", "--fail-over", "64kB"]).0, 0);
    assert_eq!(code(&["after.heaplab", "before.heaplab", "--fail-over", "0"]).0, 0);
    let mixed = [
        "--fail-over",
        "0",
        "before.heaplab",
        "after.heaplab",
        "--",
        "after.heaplab",
        "before.heaplab",
    ];
    let (spread, text) = code(&mixed);
    assert_eq!(spread, 0, "{text}");
    assert!(text.contains("beyond what runs differ"), "{text}");

    let page = ["before.heaplab", "after.heaplab", "--html", "page.html"];
    assert_eq!(code(&page).0, 0);
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("After needs 19.5 KiB more"));
}

/// One finding's function gets another name, or is inlined; one finding goes, and one comes.
#[test]
fn findings_move_go_and_come() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let apart = "-DGROWING=__attribute__((noinline))";
    let inlined = "-DGROWING=static inline __attribute__((always_inline))";
    let record = |name: &str, flags: &[&str]| {
        recorded_of("findings", folder, name, flags, str::to_owned);
    };
    record("before", &["-O1", "-g", apart, "-DGROW=grow_text", "-DWORDS"]);
    record("renamed", &["-O1", "-g", apart, "-DGROW=extend", "-DPAGES"]);
    // Without debug information nobody knows of the inlined function.
    record("inlined", &["-O1", inlined, "-DGROW=grow_text", "-DPAGES"]);

    for (after, function) in [("renamed", "extend"), ("inlined", "load")] {
        let after = format!("{after}.heaplab");
        let there = compared(folder, &["before.heaplab", &after]);
        let back = compared(folder, &[&after, "before.heaplab"]);
        let became = |of: &Value, kind: &str, function: &str| {
            let rows = of["findings"].as_array().unwrap().iter();
            let mut rows = rows.filter(|row| row["kind"] == kind && row["function"] == function);
            let row = rows.next().unwrap_or_else(|| panic!("{kind} {function}: {of:#}")).clone();
            assert_eq!(rows.next(), None, "{kind} {function} is one row");
            row
        };
        let moved = became(&there, "growth", function);
        assert_eq!(
            (&moved["became"], &moved["moved_from"]),
            (&"moved".into(), &"grow_text".into())
        );
        assert_eq!(moved["runs"], serde_json::json!([1, 1]));
        assert_eq!(moved["total_bytes"]["difference"], 0, "{moved}");
        let moved = became(&back, "growth", "grow_text");
        assert_eq!((&moved["became"], &moved["moved_from"]), (&"moved".into(), &function.into()));
        for (of, gone, new) in [
            (&there, ("churn", "copy_word"), ("clownshoes", "new_page")),
            (&back, ("clownshoes", "new_page"), ("churn", "copy_word")),
        ] {
            let gone = became(of, gone.0, gone.1);
            assert_eq!(
                (&gone["became"], &gone["runs"]),
                (&"gone".into(), &serde_json::json!([1, 0]))
            );
            let new = became(of, new.0, new.1);
            assert_eq!((&new["became"], &new["runs"]), (&"new".into(), &serde_json::json!([0, 1])));
        }
        let text = heaplab(folder, &["compare", "before.heaplab", &after]).stdout;
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("moved  ") && text.contains("(from grow_text)"), "{text}");
    }
}
