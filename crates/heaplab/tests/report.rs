//! `heaplab report` on a real program, recorded here and now: what the document of 2011 found in
//! SQLite is found again, by itself. And its exit codes and messages.

use std::path::Path;
use std::process::{Command, Output};

/// Inserts, an index, a join and a sort: pages, cells and records come and go. A smaller relative
/// of the workload behind docs/benchmarks.md.
const SCRIPT: &str = "
CREATE TABLE a(id INTEGER PRIMARY KEY, k INTEGER, name TEXT);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<6000) INSERT INTO a SELECT i, (i*7919)%10007, 'name-'||i||'-'||hex(i*31) FROM c;
CREATE INDEX ak ON a(k);
SELECT count(*), sum(length(b.name)) FROM a JOIN a AS b ON b.id=a.k WHERE a.k<5000;
SELECT count(*) FROM (SELECT id, name, row_number() OVER (PARTITION BY k%97 ORDER BY name) r FROM a) WHERE r<10;
UPDATE a SET name=replace(name,'name','longer-name') WHERE id%3=0;
";

fn heaplab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn sqlites_requests_of_4104_and_1032_bytes_are_found_by_themselves() {
    if !heaplab_oracle::has("sqlite3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("script.sql"), SCRIPT).unwrap();
    let record = heaplab(
        folder.path(),
        &["record", "--quiet", "-o", "s.heaplab", "--", "sqlite3", ":memory:", ".read script.sql"],
    );
    assert!(record.status.success(), "{}", String::from_utf8_lossy(&record.stderr));
    let report = heaplab(folder.path(), &["report", "s.heaplab", "--json", "--verify"]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let document: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let findings = document["findings"]["findings"].as_array().unwrap();
    let size = |finding: &serde_json::Value, request: u64| {
        finding["evidence"]["sizes"]
            .as_array()
            .and_then(|sizes| sizes.iter().find(|size| size["request"] == request).cloned())
    };
    let family: Vec<_> = findings.iter().filter(|finding| size(finding, 4104).is_some()).collect();
    let [family] = family[..] else {
        panic!(
            "one finding for the header: {:?}",
            findings.iter().map(|finding| &finding["title"]).collect::<Vec<_>>()
        )
    };
    for (request, free) in [(4104, 4096), (1032, 1024)] {
        let size = size(family, request).unwrap();
        assert_eq!(
            (size["free_request"].as_u64(), size["over_bytes"].as_u64()),
            (Some(free), Some(8))
        );
    }
    assert_eq!(
        (&family["kind"], &family["evidence"]["cause"]["cause"]),
        (&"clownshoes".into(), &"constant_header".into())
    );
    assert!(
        family["stacks"][0]["frames"].as_array().is_some_and(|frames| frames.len() > 2),
        "{family}"
    );
    // The two halves of the document agree: every row of the counts table is a size of the profile.
    let sizes = document["profile"]["sizes"].as_array().unwrap();
    for row in document["findings"]["counts"]["rows"].as_array().unwrap() {
        assert!(
            sizes.iter().any(|size| size["request"] == row["request"]
                && size["requested"]["objects"] == row["count"]),
            "{row}"
        );
    }
    let text = String::from_utf8(heaplab(folder.path(), &["report", "s.heaplab"]).stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = family["title"].as_str().unwrap();
    assert!(
        title.contains("1,032")
            && title.contains(", 8 bytes over powers of two; make each payload 8 bytes shorter"),
        "{title}"
    );
    assert!(words.contains(title), "{title} {text}");
    let rows: Vec<Option<&str>> = text.lines().map(|line| line.split_whitespace().next()).collect();
    assert!(["1,032", "4,104"].iter().all(|size| rows.contains(&Some(*size))), "{text}");
    assert!(!text.contains('\x1b'), "no colours in a pipe");
    let late = heaplab(folder.path(), &["report", "s.heaplab", "--at", "9999s"]);
    assert!(
        String::from_utf8_lossy(&late.stderr)
            .contains("`9999s` lies after the end of the recording"),
        "{late:?}"
    );
    let page = heaplab(folder.path(), &["report", "s.heaplab", "--html", "page.html"]);
    assert!(
        page.status.success() && !String::from_utf8_lossy(&page.stderr).contains("after the end"),
        "{page:?}"
    );
    assert!(
        std::fs::read_to_string(folder.path().join("page.html"))
            .unwrap()
            .starts_with("<!doctype html>")
    );
}

#[test]
fn moves_that_a_trace_does_not_say_are_not_counted_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = heaplab(folder.path(), arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let moved = |name: &str, trace: &str| {
        std::fs::write(folder.path().join("trace.log"), trace).unwrap();
        run(&["import", "trace.log", "-o", name]);
        let document: serde_json::Value =
            serde_json::from_str(&run(&["report", name, "--json"])).unwrap();
        let totals = &document["profile"]["totals"];
        let page = run(&["report", name, "--html", "-"]);
        let said = |field: &str| page.contains(&format!("\"moved_reallocations\":{field}"));
        (
            run(&["report", name]),
            totals["moved_reallocations"].clone(),
            totals["moved_bytes"].clone(),
            (said("null"), said("1")),
        )
    };
    let (text, count, bytes, page) =
        moved("slots.heaplab", "1 1 malloc(32)=#1\n1 1 realloc(#1,64)=#1\n1 1 free(#1)\n");
    assert!(text.contains("1 reallocation (moves are not known)"), "{text}");
    assert_eq!(
        (count, bytes, page),
        (serde_json::Value::Null, serde_json::Value::Null, (true, false))
    );
    let (text, count, bytes, page) =
        moved("raw.heaplab", "1 1 malloc(32)=0x10\n1 1 realloc(0x10,64)=0x90\n1 1 free(0x90)\n");
    assert!(text.contains("1 reallocation (1 moved, 32 bytes copied)"), "{text}");
    assert_eq!((count, bytes, page), (1.into(), 32.into(), (false, true)));
}

#[test]
fn a_wrong_command_line_is_2_and_a_missing_recording_is_1() {
    let folder = tempfile::tempdir().unwrap();
    let missing = heaplab(folder.path(), &["report", "nothing.heaplab"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("nothing.heaplab"), "{missing:?}");
    let wrong = heaplab(folder.path(), &["report", "nothing.heaplab", "--allocator", "dlmalloc"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("measured, glibc, jemalloc"),
        "{wrong:?}"
    );
    let help = heaplab(folder.path(), &["report", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(
        help.contains("Examples:") && help.lines().all(|line| line.chars().count() <= 100),
        "{help}"
    );
}

/// Heaps that ran the workload: each is described, a table puts the smallest first, the page has
/// all of them, and errors name a heap as it was typed.
#[test]
fn pages_of_several_heaps_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let generated = "sizes=web,lifetimes=random,births=60000,slots=20000,seed=3,collect=15000";
    let made = heaplab(folder.path(), &["generate", generated, "-o", "w.heaplab"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let report = |more: &[&str]| {
        let answer = heaplab(folder.path(), &[&["report", "w.heaplab", "--on"], more].concat());
        let [said, complained] = [answer.stdout, answer.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (answer.status.code(), said, complained)
    };
    let (code, said, complained) =
        report(&["v8:single-page,semi_space=512k,v8:many,semi_space=512k"]);
    assert_eq!(code, Some(0), "{complained}");
    let table = said.rsplit_once("committed").expect("a table of both heaps").1;
    let places = ["v8:many,", "v8:single-page,"].map(|heap| table.find(heap).expect(heap));
    assert!(places[0] < places[1], "the smallest first: {said}");

    let at_one = ["v8:many,v8:legacy", "--at", "collection:1", "--html", "p.html"];
    let (code, _, complained) = report(&at_one);
    assert_eq!(code, Some(0), "{complained}");
    let page = std::fs::read_to_string(folder.path().join("p.html")).unwrap();
    assert!(page.contains(r#""heap":"v8:many""#) && page.contains(r#""heap":"v8:legacy""#));

    let (code, said, complained) = report(&["v8:many", "--at", "collection:1", "--json"]);
    assert_eq!(code, Some(0), "{complained}");
    let found: serde_json::Value = serde_json::from_str(&said).unwrap();
    let heap = &found["heaps"][0];
    let parts = heap["parts"].as_array().unwrap();
    let bytes = |role: &str| -> u64 {
        let of = parts.iter().filter(|part| part["role"] == role);
        of.map(|part| part["bytes"].as_u64().unwrap()).sum()
    };
    assert!(bytes("vacant") > 0 && heap["vacant_bytes"] == bytes("vacant"), "{heap}");
    assert!(bytes("blocks") > 0 && heap["live_bytes"] == bytes("blocks"), "{heap}");
    assert!(heap["collections"].as_array().is_some_and(|all| !all.is_empty()), "{heap}");

    let (code, _, complained) = report(&["v8:many,limit=512k,semi_space=512k", "--html", "q.html"]);
    assert_eq!(code, Some(1), "{complained}");
    assert!(
        complained.contains("v8:many,limit=512k,semi_space=512k: out of memory"),
        "{complained}"
    );
    let (code, _, complained) = report(&["v8:many,glibc"]);
    assert!(code != Some(0) && complained.contains("glibc does not tell"), "{complained}");
}
