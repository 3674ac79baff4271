//! Rewrites of real files: equal to the byte if nothing should change, and opened by DevTools' own
//! worker otherwise.

use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::rewrite::{
    Identifiers, Keep, Key, Redaction, Target, Trimming, convert, ladder, redact, trim,
};
use heaplab_snapshot::rows::Rows;
use heaplab_snapshot::validate::validate;
use serde_json::Value;
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILES: [&str; 4] = ["node12-weak", "node20-names", "node24-tracking", "chromium-dom"];

fn unpacked(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/devtools/{name}.heapsnapshot.gz"));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

fn quiet(_: u64, _: u64) {}

/// (key, count, shallow, retained, distance) of each class, sorted.
fn classes(bytes: &[u8]) -> Vec<String> {
    let snapshot = Snapshot::read(bytes).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    let row = |(_, class): (u32, &heaplab_snapshot::analysis::Class)| {
        let key = heaplab_snapshot::strings::to_text(class.key().into()).into_owned();
        format!(
            "{key} {} {} {} {}",
            class.count, class.self_size, class.retained_size, class.distance
        )
    };
    let mut rows: Vec<String> = analysis.shown_classes().map(row).collect();
    rows.sort();
    rows
}

fn redacted(bytes: &[u8]) -> Vec<u8> {
    let redaction = Redaction {
        keep: Keep::Identifiers,
        identifiers: Identifiers::own(),
        key: Key::new([3; 32]),
    };
    redact(&Rows::find(bytes).unwrap(), redaction, Vec::new(), &mut quiet).unwrap().0
}

fn trimmed(bytes: &[u8], class: &str) -> (Vec<u8>, usize) {
    let snapshot = Snapshot::read(bytes).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    let of_class =
        |node: &u32| analysis.classes()[analysis.class_of(*node) as usize].name == class.as_bytes();
    let objects: Vec<u32> = snapshot.graph.nodes().filter(of_class).collect();
    let trimming = Trimming { objects: &objects, referrers_max: 3 };
    let (small, trimmed) =
        trim(&Rows::find(bytes).unwrap(), &analysis, &trimming, Vec::new(), &mut quiet).unwrap();
    assert!(trimmed.nodes.0 < trimmed.nodes.1);
    (small, objects.len())
}

#[test]
fn a_real_file_comes_out_to_the_byte() {
    for name in FILES {
        let bytes = unpacked(name);
        let (same, _) =
            convert(&Rows::find(&bytes).unwrap(), Target::Same, Vec::new(), &mut quiet).unwrap();
        assert!(same == bytes, "{name}");
        let report = validate(&bytes, &mut quiet);
        assert!(report.is_good() && report.oddities.is_empty(), "{name}: {report:?}");
    }
}

/// Scopes, their variables, their uses.
fn scopes(bytes: &[u8]) -> (u64, u64, u64) {
    let rows = Rows::find(bytes).unwrap();
    let (mut scopes, mut all) = (rows.scopes(), (0, 0, 0));
    while let Some(scope) = scopes.read().unwrap() {
        all = (all.0 + 1, all.1 + scope.context_vars, all.2 + scope.uses);
    }
    all
}

#[test]
fn scopes_go_where_their_scripts_go() {
    let bytes = unpacked("chromium-dom");
    let all = scopes(&bytes);
    assert!(all.0 > 3 && all.1 > 0 && all.2 > 0, "{all:?}");
    let (tall, _) = ladder(&Rows::find(&bytes).unwrap(), 3, Vec::new(), &mut quiet).unwrap();
    assert_eq!(scopes(&tall), (3 * all.0, 3 * all.1, 3 * all.2));
    assert_eq!(scopes(&redacted(&bytes)), all);
    // One of the copies' scripts, of three.
    let script = Rows::find(&tall).unwrap().scopes().read().unwrap().unwrap().script as u32;
    let snapshot = Snapshot::read(&tall).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    let trimming = Trimming { objects: &[script], referrers_max: 3 };
    let (small, _) =
        trim(&Rows::find(&tall).unwrap(), &analysis, &trimming, Vec::new(), &mut quiet).unwrap();
    assert_eq!(scopes(&small), all);
    let (none, _) = trimmed(&bytes, "Detached <div>");
    assert_eq!(scopes(&none), (0, 0, 0));
    for new in [tall, small, none] {
        let report = validate(&new, &mut quiet);
        assert!(report.is_good(), "{report:?}");
    }
}

const COMPUTED: &str = "
const name = number => ['alice', 'example', number].join('_');
const held = {[name(1)]() { return 1; }, [name(2)]: () => 2, [name(3)]: class {}, [name(4)]: function () {}};
class Written { static [name(5)]() {} [name(6)]() {} }
const renamed = Object.defineProperty(function () {}, 'name', {value: name(7)});
globalThis.held = {held, Written, renamed, bound: held[name(2)].bind(null), made: new held[name(3)](), writtenInSource() {}};
require('v8').writeHeapSnapshot(process.argv[1]);";

#[test]
fn names_that_a_program_computed_do_not_survive() {
    let Some((_, node)) = heaplab_oracle::devtools() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heapsnapshot");
    let output = Command::new(node).args(["-e", COMPUTED]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&path).unwrap();
    let has = |bytes: &[u8], text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
    assert!(
        (1..=7).all(|number| has(&bytes, &format!("alice_example_{number}"))),
        "the snapshot has them"
    );
    let new = redacted(&bytes);
    assert!(!has(&new, "alice") && has(&new, "\"writtenInSource\""));
}

#[test]
fn other_columns_are_the_same_heap() {
    let bytes = unpacked("node24-tracking");
    let expected = classes(&bytes);
    for target in [Target::Lines, Target::Node20, Target::Node24] {
        let (converted, _) =
            convert(&Rows::find(&bytes).unwrap(), target, Vec::new(), &mut quiet).unwrap();
        assert!(classes(&converted) == expected, "{target:?}");
    }
}

#[test]
fn a_ladder_of_a_real_file_has_every_class_so_many_times() {
    let bytes = unpacked("node12-weak");
    let (tall, ladder) = ladder(&Rows::find(&bytes).unwrap(), 3, Vec::new(), &mut quiet).unwrap();
    let count = |bytes: &[u8], name: &str| {
        let snapshot = Snapshot::read(bytes).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        analysis
            .classes()
            .iter()
            .filter(|class| class.name == name.as_bytes())
            .map(|class| class.count)
            .sum::<u64>()
    };
    for name in ["(closure)", "Function", "Array", "(string)"] {
        assert_eq!(count(&tall, name), 3 * count(&bytes, name), "{name}");
    }
    assert_eq!(validate(&tall, &mut quiet).counts.unwrap().nodes, ladder.nodes);
}

#[test]
fn nothing_long_survives_redaction_but_names_of_a_program() {
    for name in ["node12-weak", "chromium-dom"] {
        let bytes = unpacked(name);
        let new = redacted(&bytes);
        let (old_snapshot, new_snapshot) =
            (Snapshot::read(&bytes).unwrap(), Snapshot::read(&new).unwrap());
        let contents = |snapshot: &Snapshot<'_>| -> HashSet<String> {
            let graph = &snapshot.graph;
            let is_content =
                |node: &u32| snapshot.node_type_name(graph.node_type(*node)).contains("string");
            graph
                .nodes()
                .filter(is_content)
                .map(|node| snapshot.strings.text(graph.node_name(node)).into_owned())
                .collect()
        };
        let (old, new_contents) = (contents(&old_snapshot), contents(&new_snapshot));
        assert_eq!(old.len(), new_contents.len(), "{name}: what differed still differs");
        let survived: Vec<&String> =
            old.intersection(&new_contents).filter(|text| !text.is_empty()).collect();
        assert!(survived.is_empty(), "{name}: {survived:?}");
        // Contents of some length that are not shaped like names are nowhere in the file, not even
        // as a part.
        let is_prose = |text: &&String| {
            text.len() > 20
                && text.is_ascii()
                && text.contains(' ')
                && !text.contains(['\n', '\t', '"', '\\'])
        };
        let own = Identifiers::own();
        let long =
            old.iter().filter(is_prose).filter(|text| !own.contains(text.as_bytes())).take(200);
        for text in long {
            assert!(memchr::memmem::find(&new, text.as_bytes()).is_none(), "{name}: {text}");
        }
        assert_eq!(old_snapshot.graph.edge_count(), new_snapshot.graph.edge_count());
    }
}

#[test]
fn a_trimmed_file_has_the_class_and_what_it_retained() {
    let bytes = unpacked("node20-names");
    let (small, asked) = trimmed(&bytes, "Twin");
    assert!(asked > 0 && validate(&small, &mut quiet).is_good());
    let of_class = |bytes: &[u8]| -> Vec<(u64, u64)> {
        let snapshot = Snapshot::read(bytes).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        analysis
            .classes()
            .iter()
            .filter(|class| class.name == b"Twin")
            .map(|class| (class.count, class.retained_size))
            .collect()
    };
    let (before, after) = (of_class(&bytes), of_class(&small));
    assert_eq!(before.len(), after.len());
    assert!(
        before.iter().zip(&after).all(|(before, after)| before.0 == after.0 && before.1 <= after.1),
        "{before:?} {after:?}"
    );
}

#[test]
fn devtools_opens_what_is_written_and_answers_as_we_do() {
    let Some((study, node)) = heaplab_oracle::devtools() else { return };
    let folder = tempfile::tempdir().unwrap();
    let names = unpacked("node20-names");
    let lines = convert(
        &Rows::find(&unpacked("chromium-dom")).unwrap(),
        Target::Node16,
        Vec::new(),
        &mut quiet,
    )
    .unwrap()
    .0;
    let mut files = vec![
        ("redacted", redacted(&names)),
        ("trimmed", trimmed(&names, "Twin").0),
        ("converted", lines),
    ];
    let python =
        PathBuf::from(std::env::var_os("HEAPLAB_PYTHON").unwrap_or_else(|| "python3".into()));
    let path = folder.path().join("python");
    let program = "import sys, heaplab.snapshot\nclass Session: pass\nkept = [Session() for _ in range(7)]\nheaplab.snapshot.write(sys.argv[1])";
    let ran =
        Command::new(python).args(["-c", program]).arg(&path).current_dir(folder.path()).output();
    if ran.is_ok_and(|output| output.status.success()) {
        files.push(("python", std::fs::read(&path).unwrap()));
    }
    for (name, bytes) in files {
        let path = folder.path().join(format!("{name}.heapsnapshot"));
        let answers = folder.path().join(name).with_extension("answers");
        std::fs::write(&path, &bytes).unwrap();
        let output = Command::new(&node)
            .arg(study.join("judge/ask.mjs"))
            .arg("answers")
            .arg(&path)
            .arg("-o")
            .arg(&answers)
            .output()
            .unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let answers: Value =
            serde_json::from_slice(&std::fs::read(answers.join("answers.json")).unwrap()).unwrap();
        let mut theirs: Vec<String> = answers["classes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|class| {
                let number = |key: &str| class[key].to_string();
                let key = class["key"].as_str().unwrap();
                format!(
                    "{key} {} {} {} {}",
                    number("count"),
                    number("self"),
                    number("retained"),
                    number("distance")
                )
            })
            .collect();
        theirs.sort();
        let ours = classes(&bytes);
        let first = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
        assert!(
            ours.len() == theirs.len() && first.is_none(),
            "{name}: {} and {} classes, {first:?}",
            ours.len(),
            theirs.len()
        );
    }
}
