//! The results of the tools that read these formats: `go tool pprof`, and the viewer of valgrind's
//! DHAT under node.

use crate::workload::{events, tables, with_export, written};
use heaplab_export::{Format, InUseAt, Weight};
use std::{path::Path, process::Command};

const DHAT_VIEWERS: [&str; 2] =
    ["/usr/libexec/valgrind/dh_view.js", "/usr/lib/valgrind/dh_view.js"];

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env("PPROF_TMPDIR", std::env::temp_dir())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

pub fn file_of(folder: &Path, format: Format, moment: InUseAt) -> String {
    let path = folder.join("profile");
    std::fs::write(
        &path,
        with_export(&tables(), &events(), moment, |export, _| written(export, format)),
    )
    .unwrap();
    path.to_str().unwrap().to_owned()
}

/// Brendan Gregg's script, in Debian's package of NYTProf.
const FLAMEGRAPH: &str = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl";

#[test]
fn flamegraph_pl_draws_collapsed_stacks() {
    // The script compiles; its help exits with a failure.
    if !heaplab_oracle::runs("perl", &["-c", FLAMEGRAPH]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (weight, unit, all, expected) in [
        (
            Weight::AllocatedBytes,
            "bytes",
            5547,
            [
                ("main", 5540),
                ("copy", 1020),
                ("libstripped.so.1+0x2300", 4000),
                ("(no stack recorded)", 7),
            ],
        ),
        (
            Weight::AllocatedObjects,
            "requests",
            9,
            [("main", 8), ("copy", 2), ("libstripped.so.1+0x2300", 1), ("(no stack recorded)", 1)],
        ),
    ] {
        let file = file_of(folder.path(), Format::Collapsed(weight), InUseAt::Peak);
        let drawn = run("perl", &[FLAMEGRAPH, "--countname", unit, "--minwidth", "0", &file]);
        let titles: Vec<&str> = drawn
            .split("<title>")
            .skip(1)
            .map(|rest| rest.split("</title>").next().unwrap())
            .collect();
        let digits = |number: u64| {
            if number < 1000 {
                number.to_string()
            } else {
                format!("{},{:03}", number / 1000, number % 1000)
            }
        };
        for (name, number) in expected.into_iter().chain([("all", all)]) {
            let wanted = format!("{name} ({} {unit}, ", digits(number));
            assert_eq!(
                titles.iter().filter(|title| title.starts_with(&wanted)).count(),
                1,
                "{wanted}: {titles:?}"
            );
        }
        // A second number in a line would make it a difference between two runs.
        assert!(titles.iter().all(|title| !title.contains("%; ")), "{titles:?}");
        assert_eq!(
            titles.iter().filter(|title| title.starts_with("evil:")).count(),
            1,
            "{titles:?}"
        );
    }
}

#[test]
fn pprof_shows_functions_lines_and_sums() {
    if !heaplab_oracle::runs("go", &["version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = file_of(folder.path(), Format::Pprof, InUseAt::Peak);
    let raw = run("go", &["tool", "pprof", "-raw", &file]);
    assert!(
        raw.contains(
            "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]"
        ),
        "{raw}"
    );
    // Requests 1 (1000 bytes) and 6 (20 bytes) of the inlined stack; at the peak, none of it is in
    // use.
    assert!(
        raw.lines().any(|line| line.split_whitespace().take(4).eq(["2", "1020", "0", "0:"])),
        "{raw}"
    );
    // Innermost first; the others are inlined into the last one. The address is the one in memory.
    let location = raw.split("copy /src/shop.c:20").nth(1).unwrap();
    let inlined: Vec<&str> = location.lines().skip(1).take(2).map(str::trim).collect();
    assert!(
        inlined[0].starts_with("rename /src/shop.c:21")
            && inlined[1].starts_with("serve /src/shop.c:22"),
        "{raw}"
    );
    assert!(raw.contains("0x550000001200") && raw.contains("/usr/bin/shop ab12cd [FN]"), "{raw}");
    assert!(
        raw.contains("libstripped.so.1+0x2300") && raw.contains("(no stack recorded)"),
        "{raw}"
    );

    let top = |kind: &str| {
        run("go", &["tool", "pprof", "-top", "-unit=B", &format!("-sample_index={kind}"), &file])
    };
    with_export(&tables(), &events(), InUseAt::Peak, |_, profile| {
        let expected = [
            ("inuse_space", profile.peak.live.bytes),
            ("alloc_space", profile.totals.requested_bytes),
            ("inuse_objects", profile.peak.live.objects),
            ("alloc_objects", profile.totals.requests),
        ];
        for (kind, total) in expected {
            let text = top(kind);
            assert!(
                text.starts_with("File: shop\n")
                    && (kind != "inuse_space" || text.contains("evil;\"name\"\\ <b>&")),
                "{text}"
            );
            assert!(text.contains(&format!("Total samples = {total}B")), "{kind}: {text}");
        }
    });
}

/// A page with the minimum that the viewer needs of a browser, and a look at its display after
/// loading a file.
const NODE_SCRIPT: &str = r#"
const fs = require("fs");
class Node {
  constructor(tag, text) { this.tag = tag; this.own = text || ""; this.childNodes = []; }
  appendChild(node) { node.parentNode = this; this.childNodes.push(node); return node; }
  cloneNode() { return new Node(this.tag); }
  replaceChild(fresh, old) { fresh.parentNode = this; this.childNodes = this.childNodes.map(kid => kid === old ? fresh : kid); }
  set textContent(text) { this.own = text; this.childNodes = []; }
  get textContent() { return this.own + this.childNodes.map(kid => kid.textContent).join(""); }
  get selectedIndex() { return Math.max(0, this.childNodes.findIndex(kid => kid.selected)); }
}
globalThis.document = {
  body: new Node("body"), location: { search: "" },
  createElement: tag => new Node(tag), createTextNode: text => new Node("", text),
};
globalThis.window = globalThis;
const viewer = fs.readFileSync(process.argv[2], "utf8");
const data = fs.readFileSync(process.argv[3], "utf8");
const look = `
  onLoad();
  gFilename = "profile";
  gData = JSON.parse(${JSON.stringify(data)});
  buildTree();
  const root = gRoot;
  console.log(JSON.stringify({
    totalBytes: root._totalBytes, totalBlocks: root._totalBlocks, peakBytes: root._atTGmaxBytes, peakBlocks: root._atTGmaxBlocks,
    endBytes: root._atTEndBytes, endBlocks: root._atTEndBlocks, shown: (displayTree(), gMainDiv.textContent),
  }));`;
(0, eval)(viewer + look);
"#;

#[test]
fn the_dhat_viewer_accepts_the_file_and_shows_its_sums() {
    let Some(viewer) = DHAT_VIEWERS.iter().find(|viewer| Path::new(viewer).exists()) else {
        heaplab_oracle::skip("valgrind's dh_view.js is not installed");
        return;
    };
    if !heaplab_oracle::has("node") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = file_of(folder.path(), Format::Dhat, InUseAt::Peak);
    let script = folder.path().join("look.js");
    std::fs::write(&script, NODE_SCRIPT).unwrap();
    let shown: serde_json::Value =
        serde_json::from_str(&run("node", &[script.to_str().unwrap(), viewer, &file])).unwrap();
    with_export(&tables(), &events(), InUseAt::Peak, |_, profile| {
        let expected = [
            ("totalBytes", profile.totals.requested_bytes),
            ("totalBlocks", profile.totals.requests),
            ("peakBytes", profile.peak.live.bytes),
            ("peakBlocks", profile.peak.live.objects),
            ("endBytes", profile.end.live.bytes),
            ("endBlocks", profile.end.live.objects),
        ];
        for (key, expected) in expected {
            assert_eq!(shown[key].as_u64(), Some(expected), "{key}: {shown}");
        }
    });
    let text = shown["shown"].as_str().unwrap();
    assert!(
        text.contains("0x1200: rename (/src/shop.c:21)") && text.contains("shop --open \"now\""),
        "{text}"
    );
}
