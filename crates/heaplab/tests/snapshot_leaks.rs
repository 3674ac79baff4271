//! `heaplab snapshot leaks` as a user types it: on the leaks of studies/heap-snapshots/leaks, each
//! has to be found and come first, by the way that its program names; and on files that say nothing
//! of leaks.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MOMENTS: [&str; 3] = ["base.heapsnapshot", "target.heapsnapshot", "final.heapsnapshot"];

fn study() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/heap-snapshots")
}

fn heaplab(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    command.arg("snapshot").args(words).current_dir(folder).env("COLUMNS", "100").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a program that leaks and takes its three snapshots; what it prints is the way. None where
/// its interpreter is not there.
fn leaking(program: &Path, words: &[&str], folder: &Path) -> Option<Value> {
    let found = program.exists() || program.components().count() == 1;
    let output = found
        .then(|| Command::new(program).args(words).arg(folder).current_dir(study()).output().ok())
        .flatten();
    match output {
        Some(output) => {
            assert!(output.status.success(), "{program:?} {words:?}: {}", said(&output));
            Some(serde_json::from_slice(&output.stdout).unwrap())
        }
        None => {
            heaplab_oracle::skip(format_args!("{} is not installed", program.display()));
            None
        }
    }
}

/// Looks for the leak, which has to come first and go by the way that is expected.
fn found_first(name: &str, folder: &Path, way: &Value) {
    let output = heaplab(folder, &[&["leaks"], &MOMENTS[..], &["--json", "--steps", "0"]].concat());
    assert!(output.status.success(), "{name}: {}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &answer["leaks"][0];
    let steps = first["steps"].as_array().unwrap();
    let mut names = steps.iter().map(|step| step["edge"]["name"].as_str().unwrap());
    for wanted in way["names"].as_array().unwrap() {
        assert!(names.any(|name| name == wanted), "{name}: no step {wanted}: {first}");
    }
    let class = way["class"].as_str().unwrap();
    let example = first["example"]["class"].as_str().unwrap();
    assert!(class.is_empty() || class == example, "{name}: {first}");
    assert!(first["objects"].as_u64().unwrap() >= 60, "{name}: {first}");
    let retained = first["retained_bytes"].as_u64().unwrap();
    let all = answer["retained_bytes"].as_u64().unwrap();
    assert!(retained * 10 > all * 8, "{name}: {retained} of {all} bytes");
    let freed = first["cut"]["freed_with_others_bytes"].as_u64().unwrap();
    assert_eq!(freed, retained, "{name}: {}", first["cut"]);
}

#[test]
fn ten_seeded_leaks_are_found_and_come_first() {
    let node = study().join("node_modules/node24/bin/node");
    let names =
        ["closures", "listeners", "timers", "caches", "maps", "promises", "modules", "weakrefs"];
    for name in names {
        let folder = tempfile::tempdir().unwrap();
        if let Some(way) = leaking(&node, &["leaks/node.cjs", name], folder.path()) {
            found_first(name, folder.path(), &way);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    if heaplab_oracle::has("chromium")
        && let Some(way) = leaking(&node, &["leaks/page.mjs"], folder.path())
    {
        found_first("page", folder.path(), &way);
    }
    // `check` fails on it.
    let folder = tempfile::tempdir().unwrap();
    let python = std::env::var_os("HEAPLAB_PYTHON").unwrap_or_else(|| "no python".into());
    if let Some(way) = leaking(Path::new(&python), &["leaks/cycles.py"], folder.path()) {
        found_first("cycles", folder.path(), &way);
        let [base, target, last] = MOMENTS;
        let check = |assertion: &str| {
            let words = ["check", last, "--base", base, "--since", target, "--assert", assertion];
            heaplab(folder.path(), &words)
        };
        let failed = check("leaked() < 100kB");
        assert_eq!(failed.status.code(), Some(1), "{}", said(&failed));
        assert!(said(&failed).contains("leaked() is "), "{}", said(&failed));
        assert!(check("leaked(\"*.Nothing\") = 0 and added() < 1000").status.success());
    }
}

/// A snapshot of objects with these ids and names, each held by the root.
fn file(objects: &[(u32, &str)]) -> String {
    let count = objects.len();
    let mut texts: Vec<&str> = objects.iter().map(|(_, name)| *name).collect();
    texts.sort_unstable();
    texts.dedup();
    let text = |name: &str| 1 + texts.binary_search(&name).unwrap();
    let nodes: String =
        objects.iter().map(|(id, name)| format!("\n,1,{},{id},1000,0", text(name))).collect();
    let held = texts.len() + 1;
    let edges: Vec<String> = (1..=count).map(|at| format!("0,{held},{}", 5 * at)).collect();
    let names: String = texts.iter().map(|name| format!(",{name:?}")).collect();
    format!(
        r#"{{"snapshot":{{"meta":{{"node_fields":["type","name","id","self_size","edge_count"],"node_types":[["synthetic","object"],"string","number","number","number"],"edge_fields":["type","name_or_index","to_node"],"edge_types":[["property","element"],"string_or_number","node"]}},"node_count":{},"edge_count":{count},"trace_function_count":0}},
"nodes":[0,0,1,0,{count}{nodes}
],"edges":[{}
],"trace_function_infos":[],"trace_tree":[],"samples":[],"locations":[],"strings":[""{names},"held"]}}"#,
        count + 1,
        edges.join("\n,"),
    )
}

#[test]
fn what_is_born_and_lives_is_told_with_what_to_cut() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, objects: &[(u32, &str)]| {
        std::fs::write(folder.path().join(name), file(objects)).unwrap();
    };
    write(MOMENTS[0], &[(3, "App"), (5, "Gone")]);
    write(MOMENTS[1], &[(3, "App"), (5, "Gone"), (7, "Page"), (9, "Page"), (11, "Closed")]);
    write(MOMENTS[2], &[(3, "App"), (7, "Page"), (9, "Page"), (13, "Later")]);
    let output = heaplab(folder.path(), &[&["leaks"], &MOMENTS[..]].concat());
    let expected = "\
Of 3 objects born between the first two, 2 of the program live in the third: 1.95 KiB retained, held
in 1 way.

1. 1.95 KiB 50 % of the heap: 2 Page
   > .held = Page @7
   cut 2 references like this one: all of it goes
";
    assert_eq!(said(&output), expected);
    let none =
        heaplab(folder.path(), &[&["leaks"], &MOMENTS[..], &["--where", "class = 'X'"]].concat());
    assert!(said(&none).ends_with("No leaked object meets the condition.\n"), "{}", said(&none));
}

#[test]
fn an_older_object_that_grew_is_told_though_nothing_leaked() {
    let folder = tempfile::tempdir().unwrap();
    let app = file(&[(3, "App")]);
    let grown = app.replace(",3,1000,", ",3,101000,");
    for (moment, file) in MOMENTS.iter().zip([&app, &grown, &grown]) {
        std::fs::write(folder.path().join(moment), file).unwrap();
    }
    let output = heaplab(folder.path(), &[&["leaks"], &MOMENTS[..]].concat());
    let expected = "\
Of 0 objects born between the first two, 0 of the program live in the third: 0 bytes retained, held
in 0 ways.

1 older object takes 98.6 KiB more itself than in the first (numbers, a table, a buffer).

   98.6 KiB more: 98.6 KiB instead of almost nothing
     .held = App @3
";
    assert_eq!(said(&output), expected);
    let output = heaplab(folder.path(), &[&["leaks"], &MOMENTS[..], &["--json"]].concat());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let grown = &answer["grown"][0];
    assert_eq!((&grown["object"]["id"], &grown["bytes"]), (&3.into(), &101_000.into()), "{answer}");
    let [base, target, last] = MOMENTS;
    let check = |assertion: &str| {
        let words = ["check", last, "--base", base, "--since", target, "--assert", assertion];
        heaplab(folder.path(), &words)
    };
    let same = check("leaked() = 100_000 + 1000 and leaked(\"App\") = leaked()");
    assert!(same.status.success(), "{}", said(&same));
    let other = check("leaked(\"Session\") = 0");
    assert!(said(&other).contains("leaked(\"Session\") = 0"), "{}", said(&other));
    let page = heaplab(folder.path(), &[&["leaks"], &MOMENTS[..], &["--html", "-"]].concat());
    assert!(said(&page).contains("98.6 KiB more"), "{}", said(&page));
}

#[test]
fn answers_are_files_to_attach_in_which_no_name_is_markup() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    write(MOMENTS[0], &file(&[(3, "App")]));
    write(MOMENTS[1], &file(&[(3, "App"), (7, "<script>"), (9, "<script>")]));
    write(MOMENTS[2], &file(&[(3, "App"), (7, "<script>"), (9, "<script>")]));
    let commands: [(&[&str], &str); 3] = [
        (&["leaks", MOMENTS[0], MOMENTS[1], MOMENTS[2]], "cut 2 references like this one"),
        (&["diff", MOMENTS[0], MOMENTS[1]], "<td class=\"n\">+2</td>"),
        (&["summary", MOMENTS[1]], "title=\"2000 bytes\""),
    ];
    for (words, holds) in commands {
        let output = heaplab(folder.path(), &[words, &["--html", "page.html"]].concat());
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(said(&output), "page.html written\n");
        let page = read("page.html");
        assert!(page.contains(holds) && page.contains("&lt;script&gt;"), "{page}");
        assert!(!page.contains("<script") && page.contains("default-src 'none'"), "{page}");
        // A file of someone else's stays, unless it may go.
        write("notes.html", "mine");
        let refused = heaplab(folder.path(), &[words, &["--html", "notes.html"]].concat());
        assert!(!refused.status.success() && said(&refused).contains("--force"));
        assert_eq!(read("notes.html"), "mine");
        let forced =
            heaplab(folder.path(), &[words, &["--html", "notes.html", "--force"]].concat());
        assert!(forced.status.success() && read("notes.html") == page, "{}", said(&forced));
    }
    let series = heaplab(folder.path(), &[&["diff"], &MOMENTS[..], &["--html", "x.html"]].concat());
    assert_eq!(series.status.code(), Some(2));
}

#[test]
fn files_that_say_nothing_of_leaks_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, objects: &[(u32, &str)]| {
        std::fs::write(folder.path().join(name), file(objects)).unwrap();
    };
    write("a", &[(3, "App"), (5, "Gone"), (7, "Gone")]);
    write("b", &[(3, "App"), (9, "Page"), (11, "Page")]);
    write("c", &[(3, "App"), (9, "Page"), (13, "Page")]);
    let refused = |words: &[&str], why: &str| {
        let output = heaplab(folder.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{words:?}: {}", said(&output));
    };
    assert!(heaplab(folder.path(), &["leaks", "a", "b", "c"]).status.success());
    refused(&["leaks", "b", "a", "c"], "a: it is older than the file before");
    refused(&["leaks", "a", "c", "b"], "b: it is older than the file before");
    refused(&["leaks", "a", "b", "b"], "b is named twice");
    // `diff` compares two files in any order, and warns about the wrong one.
    let turned = "the files stand in the wrong order";
    for (files, is_turned) in [
        (&["a", "b"][..], false),
        (&["b", "a"], true),
        (&["a", "b", "c"], false),
        (&["c", "b", "a"], true),
    ] {
        let compared = heaplab(folder.path(), &[&["diff"], files].concat());
        let text = said(&compared).replace('\n', " ").replace("  ", " ");
        assert!(
            compared.status.success() && text.contains(turned) == is_turned,
            "{files:?}: {text}"
        );
    }
    refused(&["leaks", "a", "b", "c", "--where", "size > 1"], "size is not a field of an object");
    let missing = heaplab(folder.path(), &["leaks", "a", "b", "d"]);
    assert!(missing.status.code() == Some(1) && said(&missing).contains("cannot open d"));
    let unasked = heaplab(folder.path(), &["check", "c", "--assert", "leaked() = 0"]);
    assert!(said(&unasked).contains("--base before.heapsnapshot"), "{}", said(&unasked));
}
