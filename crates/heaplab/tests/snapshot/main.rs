//! `heaplab snapshot` as a user types it, on small snapshots whose answers DevTools gave.

mod examples;

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
fn an_index_answers_every_question_as_its_file_does() {
    let (files, path) = Files::with("node20-names");
    std::fs::write(files.path("b.heapsnapshot"), later(&path)).unwrap();
    let (older, newer) = (path.to_str().unwrap(), files.path("b.heapsnapshot"));
    let newer = newer.to_str().unwrap();
    let inode = |path: &str| {
        let metadata = std::fs::metadata(format!("{path}.index")).unwrap();
        std::os::unix::fs::MetadataExt::ino(&metadata)
    };
    let trimmed = files.path("trimmed.heapsnapshot");
    let questions: [&[&str]; 12] = [
        &["summary", older, "--json"],
        &["summary", older, "--json", "--filter", "contexts"],
        &["retainers", older, "Twin"],
        &["path", older, "Twin", "--json"],
        &["dominators", older],
        &["object", older, "Twin", "--json"],
        &["strings", older, "--json"],
        &["check", older, "--assert", "count(Twin) >= 1"],
        &["query", older, "group type"],
        &["diff", older, newer, "--json"],
        &["summary", newer, "--since", older, "--json"],
        &["trim", older, "Twin", "-o", trimmed.to_str().unwrap()],
    ];
    let ask = |words: &[&str], more: &[&str]| {
        let (question, rest) = words.split_first().unwrap();
        let said = text(&heaplab(&[question], Path::new(rest[0]), &[&rest[1..], more].concat()));
        let written = std::fs::read_to_string(&trimmed).unwrap_or_default();
        std::fs::remove_file(&trimmed).ok();
        said + &written
    };
    let mut kept = None;
    for words in questions {
        let fresh = ask(words, &[]);
        assert_eq!(ask(words, &["--index"]), fresh, "{words:?}, which may write it");
        assert_eq!(ask(words, &["--index"]), fresh, "{words:?}, from it");
        assert_eq!(*kept.get_or_insert_with(|| inode(older)), inode(older), "{words:?}");
    }
    let both = inode(newer);
    let leaks = ["leaks", older, newer, newer];
    assert!(!heaplab(&leaks[..1], &path, &[newer, newer, "--index"]).status.success());
    std::fs::copy(newer, files.path("c.heapsnapshot")).unwrap();
    let last = files.path("c.heapsnapshot");
    let leaks = ["leaks", older, newer, last.to_str().unwrap(), "--json"];
    let fresh = ask(&leaks, &[]);
    assert_eq!(ask(&leaks, &["--index"]), fresh);
    assert_eq!(ask(&leaks, &["--index"]), fresh);
    assert_eq!((kept, both), (Some(inode(older)), inode(newer)), "used, not written anew");
}

#[test]
fn an_index_answers_for_its_file_alone() {
    let (files, path) = Files::with("node12-weak");
    let fresh = text(&heaplab(&["summary", "--index"], &path, &["--json"]));
    let index = files.path("a.heapsnapshot.index");
    let written = std::fs::read(&index).unwrap();
    let rows = files.path("rows.parquet");
    text(&heaplab(&["query"], &path, &["group type", "-o", rows.to_str().unwrap()]));
    for private in [&index, &rows] {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(private).unwrap().permissions(),
        );
        assert_eq!(mode & 0o077, 0, "{}: what has secrets is its owner's alone", private.display());
    }
    let mut flipped = written.clone();
    flipped[written.len() / 2] ^= 1;
    for damaged in [&written[..40], &[], &flipped] {
        std::fs::write(&index, damaged).unwrap();
        assert_eq!(text(&heaplab(&["summary", "--index"], &path, &["--json"])), fresh);
        assert!(std::fs::read(&index).unwrap() == written, "a damaged one is written anew");
    }
    std::fs::write(&path, unpacked("node20-names.heapsnapshot.gz")).unwrap();
    assert_ne!(
        text(&heaplab(&["summary", "--index"], &path, &["--json"])),
        fresh,
        "another file of that name"
    );
    assert!(std::fs::read(&index).unwrap() != written);
}

#[test]
fn an_index_that_cannot_be_written_costs_a_warning() {
    let (files, path) = Files::with("node12-weak");
    std::fs::create_dir(files.path("a.heapsnapshot.index")).unwrap();
    let output = heaplab(&["summary", "--index"], &path, &["--json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("the answer is complete, its index is not kept"), "{errors}");
    assert_eq!(text(&output), text(&heaplab(&["summary"], &path, &["--json"])));
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

#[test]
fn a_query_filters_groups_sorts_and_tops() {
    let (_files, path) = Files::with("node20-names");
    let rows = |query: &str| json(&heaplab(&["query"], &path, &[query, "--json"]));
    let twins = rows("where class = \"Twin\" | sort id | top 3 | select id, class, shallow");
    assert_eq!((&twins["found"], twins["rows"].as_array().unwrap().len()), (&10.into(), 3));
    let ids: Vec<u64> =
        twins["rows"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert!(ids.is_sorted() && twins["rows"][0].as_object().unwrap().len() == 3, "{twins}");
    let types = rows("group type | sort count");
    let counts: Vec<u64> = types["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["count"].as_u64().unwrap())
        .collect();
    let all = rows("top 1")["found"].as_u64().unwrap();
    assert!(counts.is_sorted_by(|a, b| a >= b) && counts.iter().sum::<u64>() == all, "{types}");
    assert_eq!(rows("where id / 0 > 1")["found"], 0, "neither more nor less");
    let wrong = heaplab(&["query"], &path, &["sort size"]);
    assert_eq!(
        (
            wrong.status.code(),
            String::from_utf8_lossy(&wrong.stderr).contains("sort size\n       ^")
        ),
        (Some(2), true)
    );
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
fn what_is_written_anew_does_not_take_the_place_of_what_was_read() {
    let (files, path) = Files::with("node20-names");
    let before = std::fs::read(&path).unwrap();
    let same = files.path(".").join(path.file_name().unwrap());
    for words in [&["trim", "Twin"][..], &["convert", "--to", "lines"], &["redact"]] {
        let refused =
            heaplab(&[words[0]], &path, &[&words[1..], &["-o", same.to_str().unwrap()]].concat());
        assert!(
            !refused.status.success()
                && String::from_utf8_lossy(&refused.stderr).contains("is the file that is read"),
            "{refused:?}"
        );
        assert!(std::fs::read(&path).unwrap() == before, "{words:?}");
    }
}

/// Rows as Parquet, read by pandas.
#[test]
fn a_query_writes_parquet_that_others_read() {
    let Some(python) = std::env::var_os("HEAPLAB_PYTHON") else {
        heaplab_oracle::skip("HEAPLAB_PYTHON names no Python");
        return;
    };
    let (files, path) = Files::with("node20-names");
    let out = files.path("rows.parquet");
    text(&heaplab(
        &["query"],
        &path,
        &["select id, class, distance, shallow, dominator", "-o", out.to_str().unwrap()],
    ));
    let script = "import pandas, sys; t = pandas.read_parquet(sys.argv[1]); \
        print(len(t), int(t.shallow_bytes.sum()), int((t['class'] == 'Twin').sum()), int(t.distance.min()), list(t.columns), t.id.dtype)";
    let read = Command::new(python).args(["-c", script]).arg(&out).output().unwrap();
    let read = text(&read);
    let sums =
        json(&heaplab(&["query"], &path, &["group detached | select count, shallow", "--json"]));
    let sum = |field: &str| {
        sums["rows"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum::<u64>()
    };
    let expected = format!("{} {} 10 ", sum("count"), sum("shallow_bytes"));
    assert!(read.starts_with(&expected), "{read} is not {expected}");
    assert!(
        read.trim().ends_with("['id', 'class', 'distance', 'shallow_bytes', 'dominator'] uint32"),
        "{read}"
    );
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
    assert!(refused.contains("byte ") && refused.contains("says how far it is good"), "{refused}");
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
fn files_are_written_anew_and_nothing_changes_but_what_was_asked_for() {
    let (files, path) = Files::with("node20-names");
    let summary = |path: &Path| json(&heaplab(&["summary"], path, &["--json"]));
    let lines = files.path("lines.heapsnapshot");
    text(&heaplab(&["convert"], &path, &["--to", "lines", "-o", lines.to_str().unwrap()]));
    assert_eq!(summary(&lines), summary(&path));
    let same = json(&heaplab(&["diff"], &path, &[lines.to_str().unwrap(), "--json"]));
    assert_eq!(same["classes"].as_array().unwrap().len(), 0, "the same objects");
    let redacted = files.path("redacted.heapsnapshot");
    text(&heaplab(&["redact"], &path, &["-o", redacted.to_str().unwrap()]));
    let (before, after) = (summary(&path), summary(&redacted));
    assert_eq!(
        (&before["nodes"], &before["total_bytes"]),
        (&after["nodes"], &after["total_bytes"])
    );
    let secret = "duplicated text of some length";
    assert!(String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(secret));
    assert!(!String::from_utf8_lossy(&std::fs::read(&redacted).unwrap()).contains(secret));
    let strings = |path: &Path| {
        json(&heaplab(&["strings"], path, &["--json"]))["strings"].as_array().unwrap().len()
    };
    assert_eq!(strings(&path), strings(&redacted), "what was equal is equal");
    let series = json(&heaplab(
        &["diff"],
        &path,
        &[lines.to_str().unwrap(), path.to_str().unwrap(), "--json"],
    ));
    assert_eq!(
        (series["format"].as_str(), series["growing"].as_array().unwrap().len()),
        (Some("heaplab-snapshot-series"), 0)
    );
}

#[test]
fn what_a_conversion_loses_is_said_and_counted() {
    let (files, path) = Files::with("chromium-dom");
    let new = files.path("new.heapsnapshot");
    let convert = |to: &str| {
        heaplab(&["convert"], &path, &["--to", to, "-o", new.to_str().unwrap(), "--json"])
    };
    let output = convert("node12");
    let lost = &json(&output)["lost"];
    let said =
        String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    let states = json(&heaplab(
        &["query"],
        &path,
        &["where type = \"native\" and class ~ \"Detached *\" | group detached", "--json"],
    ));
    assert!(lost["detached"].as_u64().unwrap() > 0 && states["found"] == 1, "{lost}");
    assert!(
        said.contains(&format!("the state `detached` of {} nodes", lost["detached"])),
        "{said}"
    );
    assert!(
        said.contains(" scopes of scripts") && said.ends_with("--help says what that changes"),
        "{said}"
    );
    let found = |query: &str| {
        json(&heaplab(&["query"], &new, &[query, "--json"]))["found"].as_u64().unwrap()
    };
    assert_eq!((found("where type = \"object shape\""), found("where detached = 1")), (0, 0));
    let output = convert("same");
    assert!(
        output.stderr.is_empty() && json(&output)["lost"]["types"] == serde_json::json!({}),
        "{output:?}"
    );
}

/// The first rows are those of all rows sorted, whatever they are sorted by.
#[test]
fn a_query_gives_the_first_rows_in_order() {
    let (_files, path) = Files::with("node20-names");
    let rows = |query: String| {
        json(&heaplab(&["query"], &path, &[&query, "--json"]))["rows"].as_array().unwrap().clone()
    };
    let sorts =
        ["name asc", "name desc", "class asc", "type desc", "retained desc", "distance asc"];
    let groups = [
        "group name, class | sort name asc",
        "group name, class | sort class desc",
        "group type, name | sort retained desc",
    ];
    for query in sorts.iter().map(|sort| format!("sort {sort}")).chain(groups.map(String::from)) {
        let (query, words) =
            (format!("where shallow > 500 | {query}"), query.split(' ').rev().collect::<Vec<_>>());
        let (all, first) = (rows(query.clone()), rows(format!("{query} | top 25")));
        assert_eq!(all[..25], first, "{query}");
        let key = |row: &Value| {
            let value =
                row.get(words[1]).or_else(|| row.get(format!("{}_bytes", words[1]))).unwrap();
            (value.as_i64(), value.as_str().map(String::from))
        };
        let sorted = |two: &[Value]| {
            if words[0] == "asc" {
                key(&two[0]) <= key(&two[1])
            } else {
                key(&two[0]) >= key(&two[1])
            }
        };
        assert!(all.windows(2).all(sorted) && all.len() > 50, "{query}: {} rows", all.len());
    }
}

#[test]
fn a_trimmed_file_answers_about_what_is_left() {
    let (files, path) = Files::with("node20-names");
    let trimmed = files.path("trimmed.heapsnapshot");
    text(&heaplab(&["trim"], &path, &["Twin", "-o", trimmed.to_str().unwrap()]));
    assert!(
        std::fs::metadata(&trimmed).unwrap().len() < std::fs::metadata(&path).unwrap().len() / 4
    );
    let rows = |path: &Path| {
        json(&heaplab(
            &["query"],
            path,
            &["where class = \"Twin\" | sort id | select id, shallow, retained", "--json"],
        ))
    };
    assert_eq!(
        (&rows(&trimmed), &rows(&trimmed)["found"]),
        (&rows(&path), &10.into()),
        "the same objects with the same sizes"
    );
    let held = json(&heaplab(&["path"], &trimmed, &["Twin", "--json"]));
    let names: Vec<&str> = held["paths"][0]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["edge"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[1..3], ["held", "made"]);
}

#[test]
fn what_writes_a_file_tells_machines_too() {
    let (files, path) = Files::with("node20-names");
    let out = files.path("out.heapsnapshot");
    let out_text = out.to_str().unwrap();
    for (words, more, member) in [
        (vec!["redact"], vec!["--key", "k"], "kept"),
        (vec!["trim"], vec!["Twin"], "nodes_before"),
        (vec!["convert"], vec!["--to", "node24"], "to"),
    ] {
        let words_all = [&more[..], &["-o", out_text, "--json"]].concat();
        let told = heaplab(&words, &path, &words_all);
        let answer = json(&told);
        assert_eq!(
            answer["bytes"].as_u64(),
            Some(std::fs::metadata(&out).unwrap().len()),
            "{answer}"
        );
        assert!(
            answer["format"] == format!("heaplab-snapshot-{}", words[0])
                && !answer[member].is_null(),
            "{answer}"
        );
        let both = heaplab(&words, &path, &[&more[..], &["-o", "-", "--json"]].concat());
        assert!(!both.status.success() && both.stdout.is_empty(), "{words:?}");
        let warned = String::from_utf8_lossy(&told.stderr).contains("the key has 1 bytes");
        assert_eq!(warned, words == ["redact"], "a short key is warned of");
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
            .contains("app.jsx: a part of it cannot be told from text")
    );
}

#[test]
fn a_packed_file_is_read_as_what_is_in_it() {
    let (files, path) = Files::with("node12-weak");
    let bytes = std::fs::read(&path).unwrap();
    let expected = json(&heaplab(&["summary"], &path, &["--json"]));
    for (name, packed) in [
        ("a.heapsnapshot.gz", gzip(&bytes)),
        ("a", gzip(&bytes)),
        ("a.heapsnapshot.zst", zstd::encode_all(&bytes[..], 1).unwrap()),
    ] {
        let file = files.path(name);
        std::fs::write(&file, packed).unwrap();
        assert_eq!(json(&heaplab(&["summary"], &file, &["--json"])), expected, "{name}");
    }
    let cut = files.path("cut.gz");
    std::fs::write(&cut, &gzip(&bytes)[..10_000]).unwrap();
    let refused = String::from_utf8(heaplab(&["validate"], &cut, &[]).stderr).unwrap();
    assert!(
        refused.contains("cannot be unpacked behind ") && refused.contains("snapshot repair"),
        "{refused}"
    );
    // What came is mended.
    for (name, packed) in
        [("cut.gz", gzip(&bytes)), ("cut.zst", zstd::encode_all(&bytes[..], 1).unwrap())]
    {
        let (cut, whole) = (files.path(name), files.path("mended.heapsnapshot"));
        std::fs::write(&cut, &packed[..packed.len() * 2 / 3]).unwrap();
        let repaired = heaplab(&["repair"], &cut, &["-o", whole.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&repaired.stderr);
        assert!(
            said.contains("cannot be unpacked behind ") && said.contains("missing: "),
            "{said}"
        );
        let summary = json(&heaplab(&["summary"], &whole, &["--json"]));
        assert_eq!(summary["nodes"], expected["nodes"], "{name}: the nodes come first");
    }
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
