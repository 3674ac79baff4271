//! Compares our answers with DevTools': class by class, object by object, and every further view.
//! Uses the small files in `tests/devtools`, and all files of the folder that `HEAPLAB_SNAPSHOTS`
//! names (studies/heap-snapshots makes such a folder).
//!
//! Such a folder has, for NAME.heapsnapshot, NAME.answers/answers.json and
//! NAME.answers/objects.tsv; for a second snapshot of the same process, NAME.2.heapsnapshot and
//! NAME.diff.json; and NAME.filters.json with the Summary under its filters. The files here are
//! compressed, and only hashes of the objects' rows are kept. The study's `judge/golden.mjs`
//! regenerates them; with `--check` it compares them with DevTools' present answers.

use heaplab_snapshot::analysis::{Analysis, Class, Filter, Options, Retaining};
use heaplab_snapshot::session::{Session, SnapshotIds};
use heaplab_snapshot::{ReadOptions, Retainers, Snapshot, TraceFunction, diff};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

/// Rows of objects that share a hash.
const ROWS_A_HASH: usize = 500;

/// Differences, the first few in words, and how much was compared.
#[derive(Default)]
struct Differences {
    words: Vec<String>,
    classes: usize,
    objects: usize,
}

impl Differences {
    fn check(&mut self, what: &str, theirs: &Value, ours: &Value) {
        if theirs != ours && self.words.len() < 20 {
            let shorten = |value: &Value| value.to_string().chars().take(300).collect::<String>();
            self.words.push(format!("{what}: theirs {}, ours {}", shorten(theirs), shorten(ours)));
        }
    }

    /// Fails unless there is one difference for each path, in this order, with its beginning.
    fn are(&self, expected: &[(&str, &str)]) {
        assert_eq!(self.words.len(), expected.len(), "{:?}", self.words);
        for (found, (path, words)) in self.words.iter().zip(expected) {
            assert!(found.starts_with(&format!("{words}: ")), "{path}: {found}");
        }
    }
}

fn text(bytes: &[u8]) -> String {
    heaplab_snapshot::strings::to_text(bytes.into()).into_owned()
}

/// A row for every node, as studies/heap-snapshots writes them, with class keys in words.
fn rows(analysis: &Analysis) -> Vec<String> {
    let graph = &analysis.snapshot().graph;
    let keys: Vec<String> = analysis.classes().iter().map(|class| text(&class.key())).collect();
    let row = |node| {
        let (id, dominator) = (graph.id(node), graph.id(analysis.dominator(node)));
        let (size, retained, distance) =
            (analysis.self_size(node), analysis.retained_size(node), analysis.distance(node));
        format!(
            "{id}\t{size}\t{retained}\t{distance}\t{dominator}\t{}\t{}",
            keys[analysis.class_of(node) as usize],
            analysis.detachedness(node)
        )
    };
    graph.nodes().map(row).collect()
}

fn hashes(rows: &[String]) -> Vec<String> {
    rows.chunks(ROWS_A_HASH)
        .map(|rows| format!("{:016x}", fnv1a(rows.join("\n").as_bytes())))
        .collect()
}

/// FNV-1a in 64 bits, which studies/heap-snapshots/judge/golden.mjs has too.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn compare(analysis: &Analysis, answers: &Value, their_rows: Option<Vec<String>>) -> Differences {
    let mut differences = Differences::default();
    let classes = analysis.shown_classes().map(|(_, class)| {
        let row = json!([
            text(&class.name),
            class.count,
            class.self_size,
            class.retained_size,
            class.distance
        ]);
        (text(&class.key()), row)
    });
    let ours: BTreeMap<String, Value> = classes.collect();
    let theirs: BTreeMap<String, Value> = list(&answers["classes"])
        .iter()
        .map(|class| {
            (
                word(&class["key"]),
                json!([
                    class["name"],
                    class["count"],
                    class["self"],
                    class["retained"],
                    class["distance"]
                ]),
            )
        })
        .collect();
    assert!(!theirs.is_empty());
    for key in theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key))) {
        differences.check(
            key,
            theirs.get(key).unwrap_or(&Value::Null),
            ours.get(key).unwrap_or(&Value::Null),
        );
    }
    let our_rows = rows(analysis);
    (differences.classes, differences.objects) = (theirs.len(), our_rows.len());
    match their_rows {
        Some(their_rows) => {
            assert_eq!(their_rows.len(), our_rows.len());
            for (theirs, ours) in their_rows.into_iter().zip(our_rows) {
                differences.check("object", &theirs.into(), &ours.into());
            }
        }
        None => {
            differences.check("hashes of objects", &answers["hashes"], &json!(hashes(&our_rows)))
        }
    }
    views(&mut differences, answers, analysis);
    differences
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Totals, statistics, interfaces, duplicates, retainers, times, allocations.
fn views(differences: &mut Differences, answers: &Value, analysis: &Analysis) {
    let snapshot = analysis.snapshot();
    let graph = &snapshot.graph;
    differences.check("nodes", &answers["nodes"], &json!(graph.node_count()));
    differences.check("edges", &answers["edges"], &json!(graph.edge_count()));
    differences.check("total", &answers["total_bytes"], &json!(analysis.total_bytes()));
    differences.check("last id", &answers["max_js_object_id"], &json!(graph.last_object_id()));
    let sums = analysis.statistics();
    let ours = json!({
        "total": sums.total_bytes,
        "native": {"total": sums.native_bytes, "typedArrays": sums.typed_array_bytes},
        "v8heap": {"total": sums.v8_heap_bytes(), "code": sums.code_bytes, "jsArrays": sums.js_array_bytes,
            "strings": sums.string_bytes, "system": sums.system_bytes},
    });
    differences.check("statistics", &answers["statistics"], &ours);
    let interfaces = analysis.interfaces().iter().map(|interface| {
        let properties: Vec<String> =
            interface.properties.iter().map(|property| text(property)).collect();
        json!({"name": text(&interface.name), "properties": properties, "count": interface.count})
    });
    differences.check("interfaces", &answers["interfaces"], &interfaces.collect());
    let duplicates = |group: &heaplab_snapshot::analysis::DuplicateStrings| {
        json!([
            analysis.name(group.nodes[0]),
            group.nodes.len(),
            group.self_size,
            group.retained_size,
            group.truncated
        ])
    };
    let theirs = list(&answers["duplicates"]).iter();
    let theirs = theirs.map(|group| {
        json!([
            group["value"],
            group["count"],
            group["self"],
            group["retained"],
            group["truncated"]
        ])
    });
    differences.check(
        "duplicates",
        &theirs.collect(),
        &analysis.duplicate_strings().iter().map(duplicates).collect(),
    );
    retainers(differences, answers, analysis);
    let searched = list(&answers["searches"]);
    assert!(!searched.is_empty(), "DevTools was asked to search");
    for theirs in searched {
        let is_case_sensitive = theirs["case_sensitive"].as_bool().unwrap();
        let nodes = analysis.search(&word(&theirs["query"]), is_case_sensitive);
        let ids: Vec<u32> =
            nodes.iter().take(20).map(|node| analysis.snapshot().graph.id(*node)).collect();
        let ours = json!({"query": theirs["query"], "case_sensitive": is_case_sensitive, "count": nodes.len(), "ids": ids});
        differences.check("search", theirs, &ours);
    }
    let samples = analysis.sample_sizes();
    if !samples.is_empty() {
        let ours: Vec<u64> = samples.iter().map(|sample| sample.size_bytes).collect();
        differences.check("samples", &answers["samples"]["sizes"], &json!(ours));
    }
    let sites = analysis.allocation_sites().into_iter().map(|site| {
        let function = &snapshot.traces.functions[site.function as usize];
        json!([
            snapshot.strings.text(function.name),
            function.script_id,
            function.line,
            function.column,
            site.count,
            site.size_bytes,
            site.live_count,
            site.live_size_bytes
        ])
    });
    let fields = ["name", "scriptId", "line", "column", "count", "size", "liveCount", "liveSize"];
    let theirs = list(&answers["allocations"])
        .iter()
        .map(|site| fields.iter().map(|field| site[field].clone()).collect::<Value>());
    differences.check("allocations", &theirs.collect(), &sites.collect());
}

fn retainers(differences: &mut Differences, answers: &Value, analysis: &Analysis) {
    let graph = &analysis.snapshot().graph;
    let backward = Retainers::of(graph);
    for sampled in list(&answers["retainers"]) {
        let node = graph.node_by_id(sampled["id"].as_u64().unwrap() as u32).unwrap();
        differences.check("name", &sampled["name"], &json!(analysis.name(node)));
        let mut retaining = analysis.retainers(&backward, node);
        differences.check("number of retainers", &sampled["total"], &json!(retaining.len()));
        analysis.sort_by_node_name(&mut retaining);
        let show = |Retaining { edge, from }: &Retaining| {
            json!({"edge": analysis.edge_name(*edge), "type": analysis.snapshot().edge_type_name(graph.edge_type(*edge)),
                "from": graph.id(*from), "name": analysis.name(*from), "distance": analysis.retaining_distance(*from)})
        };
        let shown = list(&sampled["shown"]).len();
        differences.check(
            "retainers",
            &sampled["shown"],
            &retaining[..shown].iter().map(show).collect(),
        );
        shortest_paths_end_at_roots(differences, &backward, analysis, node);
    }
}

/// A property of DevTools' answer: every edge of a shortest path leads one step farther, or is an
/// ephemeron's.
fn shortest_paths_end_at_roots(
    differences: &mut Differences,
    backward: &Retainers,
    analysis: &Analysis,
    node: u32,
) {
    let path = analysis.shortest_path(backward, node);
    let graph = &analysis.snapshot().graph;
    let mut at = path.first().map_or(node, |first| first.from);
    let mut chained = true;
    for step in &path {
        chained &= step.from == at && graph.edges(at).contains(&step.edge);
        at = graph.target(step.edge);
    }
    let start = analysis.distance(path.first().map_or(node, |first| first.from));
    let from_root = start < 0 || path.first().map_or(node, |first| first.from) == graph.root();
    differences.check(
        "shortest path",
        &json!([true, true, node]),
        &json!([chained, from_root, at]),
    );
}

fn compare_diff(first: &[u8], second: &[u8], answers: &Value) -> Differences {
    let mut differences = Differences::default();
    let (older, newer) = (Snapshot::read(first).unwrap(), Snapshot::read(second).unwrap());
    let session = Session::of(&SnapshotIds::of(&older), &SnapshotIds::of(&newer));
    assert!(!session.is_broken() && !session.newer_is_first, "one session wrote both: {session:?}");
    let (older, newer) =
        (Analysis::of(&older, &Options::default()), Analysis::of(&newer, &Options::default()));
    let ids = |analysis: &Analysis, nodes: &[u32]| {
        nodes.iter().map(|node| analysis.snapshot().graph.id(*node)).collect::<Vec<_>>()
    };
    let ours: BTreeMap<String, Value> = diff::compare(&older, &newer)
        .into_iter()
        .map(|class| {
            let row = json!({"key": text(&class.key), "name": text(&class.name), "added": class.added.len(), "removed": class.removed.len(),
                "added_bytes": class.added_size, "removed_bytes": class.removed_size,
                "added_ids": ids(&newer, &class.added), "removed_ids": ids(&older, &class.removed)});
            (text(&class.key), row)
        })
        .collect();
    let theirs: BTreeMap<String, Value> =
        list(answers).iter().map(|class| (word(&class["key"]), class.clone())).collect();
    assert!(!theirs.is_empty());
    for key in theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key))) {
        differences.check(
            key,
            theirs.get(key).unwrap_or(&Value::Null),
            ours.get(key).unwrap_or(&Value::Null),
        );
    }
    differences
}

/// The Summary under each filter. Rows of classes: key, count, own bytes, retained bytes, distance.
fn compare_filters(analysis: &Analysis, answers: &Value) -> Differences {
    let mut differences = Differences::default();
    let snapshot = analysis.snapshot();
    let mut check = |what: &str, filter: Filter, theirs: &Value| {
        let by_key = |row: &Value| (word(&row[0]), row.clone());
        let theirs: BTreeMap<String, Value> = list(theirs).iter().map(by_key).collect();
        let classes = analysis
            .filtered_classes(filter)
            .into_iter()
            .filter(|class| class.count > 0 && !class.shadowed);
        let row = |class: Class| {
            json!([
                text(&class.key()),
                class.count,
                class.self_size,
                class.retained_size,
                class.distance
            ])
        };
        let ours: BTreeMap<String, Value> = classes.map(|class| by_key(&row(class))).collect();
        for key in theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key))) {
            let of = |rows: &BTreeMap<String, Value>| rows.get(key).cloned().unwrap_or_default();
            differences.check(&format!("{what}: {key}"), &of(&theirs), &of(&ours));
        }
        theirs.len()
    };
    let named = [
        ("objectsRetainedByContexts", Filter::RetainedByContexts),
        ("objectsRetainedByDetachedDomNodes", Filter::RetainedByDetachedNodes),
        ("objectsRetainedByConsole", Filter::RetainedByConsole),
        ("objectsRetainedByEventHandlers", Filter::RetainedByEventHandlers),
        ("duplicatedStrings", Filter::DuplicatedStrings),
        ("sharedNativeContext", Filter::SharedByNativeContexts),
        ("noNativeContext", Filter::WithoutNativeContext),
    ];
    let mut classes: usize =
        named.into_iter().map(|(name, filter)| check(name, filter, &answers["named"][name])).sum();
    for range in list(&answers["ids"]) {
        let [after, until] = ["after", "until"].map(|key| range[key].as_i64().unwrap());
        // Ids begin at 1, and theirs after -1.
        classes += check("ids", Filter::Ids(after.max(0) as u32, until as u32), &range["classes"]);
    }
    for context in list(&answers["contexts"]) {
        let node = snapshot.graph.node_by_id(context["id"].as_u64().unwrap() as u32).unwrap();
        classes += check("native context", Filter::NativeContext(node), &context["classes"]);
    }
    for site in list(&answers["functions"]) {
        let place = json!([site["name"], site["scriptId"], site["line"], site["column"]]);
        let is_it = |function: &TraceFunction| {
            json!([
                snapshot.strings.text(function.name),
                function.script_id,
                function.line,
                function.column
            ]) == place
        };
        let function = snapshot.traces.functions.iter().position(is_it).unwrap() as u32;
        classes += check("allocated by", Filter::AllocatedBy(function), &site["classes"]);
    }
    assert!(classes > 0, "no filter shows a class");
    differences.check(
        "native contexts",
        &answers["context_count"],
        &json!(analysis.native_contexts().contexts.len()),
    );
    differences
}

fn unpacked(path: &Path) -> Vec<u8> {
    let file =
        std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn report(failures: &mut String, name: &str, differences: Differences) {
    for difference in differences.words {
        let _ = writeln!(failures, "{name}: {difference}");
    }
}

#[test]
fn small_files_have_devtools_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/devtools");
    let mut failures = String::new();
    for name in ["node12-weak", "node20-names", "node24-tracking", "chromium-dom", "made-places"] {
        let bytes = unpacked(&folder.join(format!("{name}.heapsnapshot.gz")));
        let answers =
            serde_json::from_slice(&unpacked(&folder.join(format!("{name}.json.gz")))).unwrap();
        let one = Snapshot::read(&bytes).unwrap();
        let analysis = Analysis::of(&one, &Options::default());
        report(&mut failures, name, compare(&analysis, &answers, None));
        let filters =
            serde_json::from_slice(&unpacked(&folder.join(format!("{name}.filters.json.gz"))))
                .unwrap();
        report(&mut failures, name, compare_filters(&analysis, &filters));
        let two =
            Snapshot::read_with(&bytes, &ReadOptions { threads: 2, ..ReadOptions::default() })
                .unwrap();
        let beside = Analysis::of(&two, &Options { threads: 2, ..Options::default() });
        assert_eq!(rows(&analysis), rows(&beside), "{name}: two threads");
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn a_wrong_answer_is_seen() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/devtools");
    let bytes = unpacked(&folder.join("node24-tracking.heapsnapshot.gz"));
    let snapshot = Snapshot::read(&bytes).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    let json =
        |name: &str| -> Value { serde_json::from_slice(&unpacked(&folder.join(name))).unwrap() };
    // Each falsifies one answer; the difference begins with these words.
    let mut wrong = json("node24-tracking.json.gz");
    let class = word(&wrong["classes"][3]["key"]);
    let expected = [
        ("/classes/3/retained", &*class),
        ("/hashes/7", "hashes of objects"),
        ("/statistics/v8heap/strings", "statistics"),
        ("/duplicates/0/self", "duplicates"),
        ("/retainers/100/shown/0/from", "retainers"),
        ("/allocations/1/liveSize", "allocations"),
    ];
    for (path, _) in expected {
        *wrong.pointer_mut(path).unwrap() = json!(1);
    }
    compare(&analysis, &wrong, None).are(&expected);
    let mut wrong = json("node24-tracking.filters.json.gz");
    let expected = [
        ("/named/duplicatedStrings/0/1", "duplicatedStrings"),
        ("/ids/1/classes/0/3", "ids"),
        ("/contexts/0/classes/2/2", "native context"),
        ("/functions/0/classes/0/4", "allocated by"),
    ];
    for (path, _) in expected {
        *wrong.pointer_mut(path).unwrap() = json!(999_999);
    }
    compare_filters(&analysis, &wrong).are(&expected);
}

/// DevTools' rows of objects, with class keys in words.
fn rows_of(path: &Path, answers: &Value) -> Vec<String> {
    let keys: Vec<String> = list(&answers["keys"]).iter().map(word).collect();
    let named = |line: &str| {
        let mut fields: Vec<&str> = line.split('\t').collect();
        fields[5] = &keys[fields[5].parse::<usize>().unwrap()];
        fields.join("\t")
    };
    std::fs::read_to_string(path).unwrap().lines().map(named).collect()
}

/// Needs a folder of snapshots with answers, which takes Nodes of seven versions to make; without
/// one there is nothing to compare.
#[test]
fn all_files_of_a_folder_have_devtools_answers() {
    let Some(folder) = std::env::var_os("HEAPLAB_SNAPSHOTS") else {
        heaplab_oracle::skip(
            "HEAPLAB_SNAPSHOTS names no folder of snapshots with DevTools' answers",
        );
        return;
    };
    let mut failures = String::new();
    let (mut compared, mut filtered, mut diffs, mut classes, mut objects) = (0, 0, 0, 0, 0);
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "heapsnapshot"))
    {
        let name = path.file_stem().unwrap().to_string_lossy();
        let answers = std::fs::read(path.with_extension("answers").join("answers.json"));
        let filters = std::fs::read(path.with_extension("filters.json"));
        if answers.is_ok() || filters.is_ok() {
            let bytes = std::fs::read(path).unwrap();
            let snapshot = Snapshot::read(&bytes).unwrap();
            let analysis = Analysis::of(&snapshot, &Options::default());
            if let Ok(json) = answers {
                let json = serde_json::from_slice(&json).unwrap();
                let rows = rows_of(&path.with_extension("answers").join("objects.tsv"), &json);
                let differences = compare(&analysis, &json, Some(rows));
                compared += 1;
                classes += differences.classes;
                objects += differences.objects;
                report(&mut failures, &name, differences);
            }
            if let Ok(json) = filters {
                report(
                    &mut failures,
                    &format!("{name} filters"),
                    compare_filters(&analysis, &serde_json::from_slice(&json).unwrap()),
                );
                filtered += 1;
            }
        }
        if let Ok(json) = std::fs::read(path.with_extension("diff.json")) {
            let (first, second) = (
                std::fs::read(path).unwrap(),
                std::fs::read(path.with_extension("2.heapsnapshot")).unwrap(),
            );
            report(
                &mut failures,
                &format!("{name} diff"),
                compare_diff(&first, &second, &serde_json::from_slice(&json).unwrap()),
            );
            diffs += 1;
        }
    }
    eprintln!(
        "{compared} files, {classes} classes, {objects} objects compared, {filtered} files under filters, {diffs} with a later one of the same process"
    );
    assert!(compared > 0 && failures.is_empty(), "{failures}");
}
