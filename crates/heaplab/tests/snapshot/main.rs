//! `heaplab snapshot` as a user types it, on small snapshots whose answers DevTools gave.

mod examples;
mod index;
mod queries;
mod written_files;

use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with a file of the library's tests, unpacked.
struct Files(tempfile::TempDir);

impl Files {
    fn with(name: &str) -> (Files, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.heapsnapshot");
        std::fs::write(&path, unpacked(&format!("{name}.heapsnapshot.gz"))).unwrap();
        (Files(folder), path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn unpacked(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../snapshot/tests/devtools").join(name);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

fn heaplab(words: &[&str], file: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .arg("snapshot")
        .args(words)
        .arg(file)
        .args(more)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&text(output)).unwrap()
}

/// The file once more and other objects beside those: what a later snapshot has.
fn later(path: &Path) -> Vec<u8> {
    use heaplab_snapshot::rewrite::ladder;
    let bytes = std::fs::read(path).unwrap();
    ladder(&heaplab_snapshot::rows::Rows::find(&bytes).unwrap(), 2, Vec::new(), &mut |_, _| ())
        .unwrap()
        .0
}

#[test]
fn a_summary_has_devtools_classes() {
    let (files, path) = Files::with("node20-names");
    let answers: Value = serde_json::from_slice(&unpacked("node20-names.json.gz")).unwrap();
    let ours = json(&heaplab(&["summary"], &path, &["--json"]));
    assert_eq!(
        (&ours["nodes"], &ours["total_bytes"]),
        (&answers["nodes"], &answers["total_bytes"])
    );
    let row = |class: &Value, names: [&str; 5]| names.map(|name| class[name].to_string()).join(" ");
    let sorted = |classes: &Value, names| {
        let mut rows: Vec<String> =
            classes.as_array().unwrap().iter().map(|class| row(class, names)).collect();
        rows.sort();
        rows
    };
    let theirs = sorted(&answers["classes"], ["key", "count", "self", "retained", "distance"]);
    assert_eq!(
        sorted(&ours["classes"], ["key", "count", "shallow_bytes", "retained_bytes", "distance"]),
        theirs
    );
    let filters: Value = serde_json::from_slice(&unpacked("node20-names.filters.json.gz")).unwrap();
    let context = format!("context:@{}", filters["contexts"][0]["id"]);
    let named = &filters["named"];
    for (filter, theirs) in [
        ("detached", &named["objectsRetainedByDetachedDomNodes"]),
        ("contexts", &named["objectsRetainedByContexts"]),
        (&context, &filters["contexts"][0]["classes"]),
    ] {
        let ours = json(&heaplab(&["summary"], &path, &["--json", "--filter", filter]));
        let rows = theirs.as_array().unwrap().iter().map(|row| {
            row.as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(" ")
        });
        let mut rows: Vec<String> = rows.collect();
        rows.sort();
        assert_eq!(
            sorted(
                &ours["classes"],
                ["key", "count", "shallow_bytes", "retained_bytes", "distance"]
            ),
            rows,
            "{filter}"
        );
    }
    let nothing_new =
        json(&heaplab(&["summary"], &path, &["--json", "--since", path.to_str().unwrap()]));
    assert_eq!(nothing_new["classes"].as_array().unwrap().len(), 0);
    let newer = files.path("newer.heapsnapshot");
    std::fs::write(&newer, later(&path)).unwrap();
    let swapped = heaplab(&["summary"], &path, &["--since", newer.to_str().unwrap()]);
    let complaint = String::from_utf8_lossy(&swapped.stderr);
    assert!(
        swapped.status.code() == Some(1)
            && complaint.contains("has later ids")
            && complaint.contains("it is the newer one"),
        "{swapped:?}"
    );
    // Whatever classes are shown, as many pass.
    let passing = |class: &str| {
        let shown = text(&heaplab(
            &["summary"],
            &newer,
            &["--since", path.to_str().unwrap(), "--class", class],
        ));
        shown.lines().find(|line| line.starts_with("of which ")).unwrap().to_owned()
    };
    assert_eq!(passing("none of this name"), passing("*"));
    assert!(!passing("*").starts_with("of which 0 objects"), "{}", passing("*"));
    let wrong = heaplab(&["summary"], &path, &["--filter", "context:@3"]);
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("is not a native context; there are @"),
        "{wrong:?}"
    );
    let wrong = heaplab(&["summary"], &path, &["--filter", "allocated-by:main"]);
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("has no allocation sites"),
        "{wrong:?}"
    );
    let shown = text(&heaplab(&["summary"], &path, &["--class", "Twin", "--sort", "count"]));
    assert_eq!(
        shown.lines().filter(|line| line.contains("Twin  (file")).count(),
        2,
        "two classes of one name: {shown}"
    );
}

#[test]
fn an_object_is_found_and_what_keeps_it() {
    let (_files, path) = Files::with("node20-names");
    let object = json(&heaplab(&["object"], &path, &["Twin", "--json"]));
    assert_eq!(object["object"]["class"], "Twin");
    let id = format!("@{}", object["object"]["id"]);
    assert!(
        text(&heaplab(&["object"], &path, &[&id]))
            .starts_with(&format!("Twin {id}\nobject of class Twin;"))
    );
    let retainers = json(&heaplab(&["retainers"], &path, &[&id, "--depth", "2", "--json"]));
    assert_eq!(retainers["retainers"][0]["from"]["name"], "Array");
    assert!(retainers["retainers"][0]["retainers"].is_array());
    let paths = json(&heaplab(&["path"], &path, &["Twin", "--json"]));
    assert_eq!(
        (&paths["objects"], &paths["different_paths"]),
        (&10.into(), &2.into()),
        "two classes called Twin, one array"
    );
    let steps = paths["paths"][0]["steps"].as_array().unwrap();
    let names: Vec<&str> =
        steps.iter().map(|step| step["edge"]["name"].as_str().unwrap()).collect();
    assert_eq!(names[1..3], ["held", "made"], "behind the root's own reference");
    let dominators = json(&heaplab(&["dominators"], &path, &[&id, "--json"]));
    let chain = dominators["dominators"].as_array().unwrap();
    assert_eq!(chain.last().unwrap()["id"], 1, "the root");
    let unknown = heaplab(&["object"], &path, &["@4294967295"]);
    assert_eq!(unknown.status.code(), Some(2));
    let unknown = String::from_utf8(heaplab(&["path"], &path, &["Twi"]).stderr).unwrap();
    assert!(unknown.contains("no object is of a class \"Twi\"; there is \"Twin\""), "{unknown}");
}

#[test]
fn assertions_hold_fail_or_cannot_be_checked() {
    let (files, path) = Files::with("node20-names");
    let code = |path: &Path, assertion: &str| {
        heaplab(&["check"], path, &["--assert", assertion]).status.code()
    };
    assert_eq!(code(&path, "count(Twin) = 10 and count(\"T*n\") >= 10"), Some(0));
    assert_eq!(code(&path, "count(Twin) < 10"), Some(1));
    assert_eq!(
        code(&path, "retained(Twin) >= shallow(Twin) and total() > 1MB and nodes() < edges()"),
        Some(0)
    );
    assert_eq!(code(&path, "count(Twin <"), Some(2));
    assert_eq!(code(&files.path("none"), "count(Twin) < 10"), Some(2));
    let answer = heaplab(
        &["check"],
        &path,
        &["--json", "--assert", "count(Twin) < 10", "--assert", "distance(Twin) > 1"],
    );
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(
        (&answer["failed"], &answer["assertions"][0]["values"][0]["value"]),
        (&1.into(), &10.into())
    );
    assert_eq!(code(&path, "1 / 0 > 1"), Some(2));
    assert_eq!(code(&path, "count(Twin) / count(Nobody) > 1"), Some(2));
    assert_eq!(code(&path, "grew(Twin) < 1"), Some(2), "since when");
    std::fs::write(files.path("later"), later(&path)).unwrap();
    let since = |assertion: &str| {
        heaplab(
            &["check"],
            &files.path("later"),
            &["--since", path.to_str().unwrap(), "--assert", assertion],
        )
        .status
        .code()
    };
    assert_eq!(
        (since("grew(Twin) = 10 and grew(Nobody) = 0"), since("grew(Twin) < 10")),
        (Some(0), Some(1))
    );
    let mistyped = heaplab(&["check"], &path, &["--assert", "count(Twi) <= 10"]);
    let said = String::from_utf8_lossy(&mistyped.stderr);
    assert!(
        mistyped.status.success()
            && said.contains("no object is of a class \"Twi\"; there is \"Twin\""),
        "{said}"
    );
    assert_eq!(
        heaplab(&["check"], &path, &["--strict", "--assert", "count(Twi) <= 10"]).status.code(),
        Some(1)
    );
    let misread =
        String::from_utf8(heaplab(&["check"], &path, &["--assert", "1 < cuont(Twin)"]).stderr)
            .unwrap();
    assert!(misread.contains("\n  1 < cuont(Twin)\n      ^"), "{misread}");
}

#[test]
fn what_a_class_retains_is_what_devtools_says_of_it() {
    let (_files, path) = Files::with("chromium-dom");
    let summary = json(&heaplab(&["summary"], &path, &["--json"]));
    let classes = summary["classes"].as_array().unwrap();
    let names = classes
        .iter()
        .filter(|class| classes.iter().filter(|other| other["name"] == class["name"]).count() == 1);
    let chosen: Vec<&Value> = names
        .filter(|class| {
            class["count"].as_u64() > Some(3) && !class["name"].to_string().contains('*')
        })
        .take(12)
        .collect();
    assert_eq!(chosen.len(), 12);
    let mut words: Vec<String> = Vec::new();
    for class in chosen {
        let name = class["name"].as_str().unwrap();
        words.extend([
            "--assert".into(),
            format!(
                "retained('{name}') = {} and count('{name}') = {}",
                class["retained_bytes"], class["count"]
            ),
        ]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let checked = heaplab(&["check"], &path, &words);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// An object called Function, and two functions: DevTools shows the class that comes last.
const TWO_FUNCTIONS: &str = r#"{"snapshot":{"meta":{"node_fields":["type","name","id","self_size","edge_count"],
"node_types":[["hidden","object","synthetic","native","closure"],"string","number","number","number"],
"edge_fields":["type","name_or_index","to_node"],"edge_types":[["property","element"],"string_or_number","node"]},"node_count":4,"edge_count":3},
"nodes":[2,0,1,0,3,1,1,3,1000,0,4,2,5,16,0,4,2,7,16,0],"edges":[0,1,5,0,2,10,0,2,15],"strings":["","Function","fn"]}"#;

#[test]
fn a_class_that_devtools_overwrites_is_spoken_of_and_can_be_listed() {
    let (files, _) = Files::with("node20-names");
    let path = files.path("two.heapsnapshot");
    std::fs::write(&path, TWO_FUNCTIONS).unwrap();
    let counts = |output: &Output| -> Vec<u64> {
        json(output)["classes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|class| class["count"].as_u64().unwrap())
            .collect()
    };
    for words in [&["summary"][..], &["summary", "--index"]] {
        let output = heaplab(words, &path, &["--json"]);
        assert_eq!(counts(&output), [2]);
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("1 class is not listed"),
            "{output:?}"
        );
    }
    let all = heaplab(&["summary"], &path, &["--json", "--overwritten"]);
    assert_eq!((counts(&all), all.stderr.is_empty()), (vec![1, 2], true));
}

#[test]
fn a_cut_file_is_told_from_a_good_one() {
    let (files, path) = Files::with("node12-weak");
    assert!(text(&heaplab(&["validate"], &path, &[])).contains(": good,"));
    let bytes = std::fs::read(&path).unwrap();
    let cut = files.path("cut.heapsnapshot");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let validated = heaplab(&["validate"], &cut, &["--json"]);
    assert_eq!(validated.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&validated.stdout).unwrap();
    assert_eq!(
        (&report["good"], &report["lists"][0]["whole"]),
        (&false.into(), &true.into()),
        "all nodes are there: {report}"
    );
    assert_eq!(
        (&report["cut"], &report["cut_in"], &report["damage_offset"]),
        (&true.into(), &"edges".into(), &report["file_bytes"])
    );
    // So little that the counts of its header are more than it could hold: they are not what is
    // wrong.
    let nodes = bytes.windows(9).position(|piece| piece == b"\"nodes\":[").unwrap();
    std::fs::write(&cut, &bytes[..nodes + 100]).unwrap();
    let told = String::from_utf8(heaplab(&["validate"], &cut, &[]).stdout).unwrap();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains(": cut at byte ") && told.contains(", within `nodes`; good up to byte "),
        "{told}"
    );
    let refused = String::from_utf8(heaplab(&["summary"], &cut, &[]).stderr).unwrap();
    assert!(refused.contains("it was cut"), "{refused}");
    let refused = String::from_utf8(heaplab(&["summary"], &cut, &[]).stderr).unwrap();
    assert!(refused.contains("byte ") && refused.contains("names the undamaged part"), "{refused}");
    // A header is nothing to make a file of.
    std::fs::write(&cut, &bytes[..nodes - 10]).unwrap();
    let mended = files.path("mended.heapsnapshot");
    let refused = heaplab(&["repair"], &cut, &["-o", mended.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && !said.contains("snapshot repair"), "{said}");
    assert!(!mended.exists());
    std::fs::write(&cut, "").unwrap();
    let refused = String::from_utf8(heaplab(&["summary"], &cut, &[]).stderr).unwrap();
    assert!(refused.contains("empty file"), "{refused}");
    let folder = String::from_utf8(heaplab(&["summary"], files.0.path(), &[]).stderr).unwrap();
    assert!(folder.contains("is a folder"), "{folder}");
    // Nobody writes into it, and nobody waits for that.
    let pipe = files.path("pipe.heapsnapshot");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    for words in [&["summary"][..], &["validate"], &["diff", path.to_str().unwrap()]] {
        let refused = heaplab(words, &pipe, &[]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(
            String::from_utf8_lossy(&refused.stderr).contains("is no regular file"),
            "{refused:?}"
        );
    }
}

#[test]
fn python_sources_are_read_as_python() {
    let (files, path) = Files::with("node20-names");
    let source = files.path("app.py");
    // What JavaScript would take for names.
    std::fs::write(&source, "x = 1 # Twin\n\"\"\"one\nmade\n\"\"\"\n").unwrap();
    let redacted = heaplab(&["redact"], &path, &["--source", source.to_str().unwrap(), "-o", "-"]);
    assert!(
        redacted.status.success() && redacted.stderr.windows(6).all(|bytes| bytes != b"parser"),
        "all of it is read"
    );
    std::fs::write(files.path("app.jsx"), "let a = <p>said</p>").unwrap();
    let redacted = heaplab(
        &["redact"],
        &path,
        &["--source", files.path("app.jsx").to_str().unwrap(), "-o", "-"],
    );
    assert!(
        String::from_utf8_lossy(&redacted.stderr)
            .contains("app.jsx: heaplab has no parser to tell code from text")
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packing, bytes).unwrap();
    packing.finish().unwrap()
}

#[test]
fn what_readers_refuse_is_not_called_good() {
    let (files, path) = Files::with("node20-names");
    let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
    // The second node's id is that of the root, or beyond 32 bits; a field that stands twice.
    let second = text.find("\"nodes\":[").unwrap();
    let row = text[second..].split('\n').nth(1).unwrap();
    let numbers: Vec<&str> = row.split(',').collect();
    let with_id =
        |id: &str| text.replacen(row, &[&numbers[..3], &[id], &numbers[4..]].concat().join(","), 1);
    for (name, changed) in [
        ("twice", with_id("1")),
        ("beyond", with_id("4294967299")),
        ("field", text.replacen("\"detachedness\"]", "\"id\"]", 1)),
    ] {
        let file = files.path(name);
        assert_ne!(changed, text, "{name}");
        std::fs::write(&file, changed).unwrap();
        let codes = [heaplab(&["validate"], &file, &[]), heaplab(&["summary"], &file, &[])]
            .map(|output| output.status.code());
        assert_eq!(codes, [Some(1), Some(1)], "{name}");
    }
}
