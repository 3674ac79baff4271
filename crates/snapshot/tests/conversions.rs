//! The promise of `convert`: DevTools answers about the new file, class by class and object by
//! object, as about the old one without the data that the target has no place for, and `convert`
//! counts that data. This test makes the reduced old file by other means, number by number.

use heaplab_snapshot::rewrite::{Lost, Target, convert};
use heaplab_snapshot::rows::Rows;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Columns and types of the Nodes, written down once more.
const NODE_12: [&str; 6] = ["type", "name", "id", "self_size", "edge_count", "trace_node_id"];
const NODE_24: [&str; 6] = ["type", "name", "id", "self_size", "edge_count", "detachedness"];
const ALL: [&str; 7] =
    ["type", "name", "id", "self_size", "edge_count", "trace_node_id", "detachedness"];
const LATER_TYPES: [&str; 2] = ["object shape", "wasm object"];
const LISTS: [&str; 10] = [
    "nodes",
    "edges",
    "trace_function_infos",
    "trace_tree",
    "samples",
    "locations",
    "scopes",
    "scope_context_vars",
    "scope_uses",
    "strings",
];

fn unpacked(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/devtools/{name}.heapsnapshot.gz"));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

fn converted(bytes: &[u8], target: Target) -> (Vec<u8>, Lost) {
    let (new, converted) =
        convert(&Rows::find(bytes).unwrap(), target, Vec::new(), &mut |_, _| ()).unwrap();
    (new, converted.lost)
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn numbers(list: &Value) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

/// A file as JSON; DevTools looks for its lists in their order.
#[derive(Clone)]
struct File(Value);

impl File {
    fn of(bytes: &[u8]) -> File {
        File(serde_json::from_slice(bytes).unwrap())
    }

    fn bytes(&self) -> Vec<u8> {
        let lists: Vec<String> = ["snapshot"]
            .iter()
            .chain(&LISTS)
            .map(|key| format!("\"{key}\":{}", self.0.get(*key).unwrap_or(&json!([]))))
            .collect();
        format!("{{{}}}", lists.join(",\n")).into_bytes()
    }

    fn meta(&mut self) -> &mut Map<String, Value> {
        self.0["snapshot"]["meta"].as_object_mut().unwrap()
    }

    /// Has its nodes in these columns (a new one is 0) and those of the types hidden; counts what
    /// that loses.
    fn nodes_in(&mut self, columns: &[&str], gone: &[&str]) -> Lost {
        let had = names(&self.meta()["node_fields"]);
        let types = names(&self.meta()["node_types"][0]);
        let strings = names(&self.0["strings"]);
        let (mut lost, mut nodes) = (Lost::default(), Vec::new());
        let mut hidden: Vec<(String, u64)> = types.iter().map(|name| (name.clone(), 0)).collect();
        let place = |field: &str| had.iter().position(|name| name == field);
        let [kind_at, name_at] = ["type", "name"].map(|field| place(field).unwrap());
        let (state_at, trace_at) = (place("detachedness"), place("trace_node_id"));
        let [keeps_state, keeps_trace] =
            ["detachedness", "trace_node_id"].map(|field| columns.contains(&field));
        let is_gone: Vec<bool> = types.iter().map(|name| gone.contains(&name.as_str())).collect();
        let places: Vec<Option<usize>> = columns.iter().map(|field| place(field)).collect();
        for row in numbers(&self.0["nodes"]).chunks(had.len()) {
            let (kind, name) = (row[kind_at] as usize, &strings[row[name_at] as usize]);
            hidden[kind].1 += u64::from(is_gone[kind]);
            match state_at {
                Some(at) if !keeps_state => {
                    lost.attached += u64::from(row[at] == 1);
                    lost.detached += u64::from(row[at] == 2);
                }
                None if keeps_state => {
                    lost.detached_by_name +=
                        u64::from(types[kind] == "native" && name.starts_with("Detached "));
                }
                _ => {}
            }
            lost.allocated += u64::from(!keeps_trace && trace_at.is_some_and(|at| row[at] != 0));
            for at in &places {
                let is_hidden = *at == Some(kind_at) && is_gone[kind];
                nodes.push(if is_hidden { 0 } else { at.map_or(0, |at| row[at]) });
            }
        }
        assert_eq!(types[0], "hidden");
        hidden.retain(|(_, count)| *count > 0);
        lost.hidden = hidden;
        self.0["nodes"] = json!(nodes);
        let moved = |index: i64| index / had.len() as i64 * columns.len() as i64;
        self.move_indices("edges", &["type", "name_or_index", "to_node"], "to_node", moved);
        let location_fields = names(&self.meta()["location_fields"]);
        let fields: Vec<&str> = location_fields.iter().map(String::as_str).collect();
        self.move_indices("locations", &fields, "object_index", moved);
        self.meta().insert("node_fields".into(), json!(columns));
        lost
    }

    fn move_indices(
        &mut self,
        list: &str,
        fields: &[&str],
        field: &str,
        moved: impl Fn(i64) -> i64,
    ) {
        let (at, mut rows) =
            (fields.iter().position(|name| *name == field).unwrap(), numbers(&self.0[list]));
        rows.chunks_mut(fields.len()).for_each(|row| row[at] = moved(row[at]));
        self.0[list] = json!(rows);
    }

    /// Is without scopes and the nodes of scripts.
    fn without_scopes(&mut self, lost: &mut Lost) {
        let counts = ["scope_fields", "scope_context_var_fields", "scope_use_fields"]
            .map(|key| self.meta().remove(key).map(|fields| names(&fields).len()));
        let rows = |file: &mut Value, key: &str, width: Option<usize>| {
            let width = width?;
            Some((file.as_object_mut()?.remove(key)?.as_array()?.len() / width) as u64)
        };
        lost.scopes = rows(&mut self.0, "scopes", counts[0]).unwrap_or(0);
        lost.scope_variables = rows(&mut self.0, "scope_context_vars", counts[1]).unwrap_or(0);
        lost.scope_uses = rows(&mut self.0, "scope_uses", counts[2]).unwrap_or(0);
        let mut fields = names(&self.meta()["location_fields"]);
        if let Some(at) = fields.iter().position(|name| name == "script_object_index") {
            let rows = numbers(&self.0["locations"]);
            lost.script_objects = (rows.len() / fields.len()) as u64;
            let kept =
                rows.chunks(fields.len()).flat_map(|row| [&row[..at], &row[at + 1..]].concat());
            self.0["locations"] = json!(kept.collect::<Vec<i64>>());
            fields.remove(at);
            self.meta().insert("location_fields".into(), json!(fields));
        }
    }
}

/// The file without the data that the target has no place for, and that data's counts.
fn without(file: &File, target: Target) -> (Vec<u8>, Lost) {
    let mut file = file.clone();
    let tracked = file.0["snapshot"]["trace_function_count"].as_u64().unwrap_or(0) > 0;
    let (columns, gone): (&[&str], &[&str]) = match target {
        Target::Node12 => (&NODE_12, &LATER_TYPES),
        Target::Node16 => (&ALL, &LATER_TYPES),
        Target::Node20 => (&ALL, &[]),
        Target::Node24 if tracked => (&ALL, &LATER_TYPES[1..]),
        Target::Node24 => (&NODE_24, &LATER_TYPES[1..]),
        _ => unreachable!("targets that change nothing"),
    };
    let mut lost = file.nodes_in(columns, gone);
    file.without_scopes(&mut lost);
    let extra = file.0["snapshot"]
        .as_object_mut()
        .unwrap()
        .remove("extra_native_bytes")
        .unwrap_or(json!(0));
    if target == Target::Node24 {
        file.0["snapshot"]["extra_native_bytes"] = extra;
    } else {
        lost.extra_native_bytes = extra.as_u64().unwrap();
    }
    (file.bytes(), lost)
}

/// Chromium's file with more to lose: Node's columns, other bytes outside of the heap, names that
/// state what no column does.
fn with_more(bytes: &[u8], change: impl FnOnce(&mut File)) -> Vec<u8> {
    let mut file = File::of(bytes);
    change(&mut file);
    file.bytes()
}

fn heaps() -> Vec<(&'static str, Vec<u8>)> {
    let chromium = with_more(&unpacked("chromium-dom"), |file| {
        file.0["snapshot"]["extra_native_bytes"] = json!(123_456)
    });
    // Every hundredth object is one of WebAssembly's.
    let wasm = with_more(&chromium, |file| {
        file.meta()["node_types"][0].as_array_mut().unwrap().push(json!("wasm object"));
        let mut nodes = numbers(&file.0["nodes"]);
        nodes.chunks_mut(6).filter(|row| row[0] == 3).step_by(100).for_each(|row| row[0] = 15);
        file.0["nodes"] = json!(nodes);
    });
    // As Chromium wrote it before it had a column for the state.
    let by_name = with_more(&chromium, |file| {
        let mut strings = names(&file.0["strings"]);
        let div = strings.iter().position(|text| text.starts_with("<div")).unwrap();
        strings[div] = format!("Detached {}", strings[div]);
        file.0["strings"] = json!(strings);
        file.nodes_in(&NODE_12, &[]);
    });
    vec![
        ("chromium", chromium),
        ("wasm", wasm),
        ("by-name", by_name),
        ("tracking", unpacked("node24-tracking")),
    ]
}

const TARGETS: [Target; 4] = [Target::Node12, Target::Node16, Target::Node20, Target::Node24];

/// A heap for each of the targets: as `convert` makes it, and by this test's own means.
struct Heap {
    name: &'static str,
    bytes: Vec<u8>,
    converted: [(Vec<u8>, Lost); 4],
    expected: [(Vec<u8>, Lost); 4],
}

fn converted_heaps() -> &'static [Heap] {
    static HEAPS: OnceLock<Vec<Heap>> = OnceLock::new();
    HEAPS.get_or_init(|| {
        let all = |(name, bytes): (_, Vec<u8>)| {
            let file = File::of(&bytes);
            Heap {
                name,
                converted: TARGETS.map(|target| converted(&bytes, target)),
                expected: TARGETS.map(|target| without(&file, target)),
                bytes,
            }
        };
        heaps().into_iter().map(all).collect()
    })
}

#[test]
fn what_is_lost_is_counted() {
    let mut all = Lost::default();
    for Heap { name, bytes, converted: new, expected } in converted_heaps() {
        for (target, ((_, lost), (_, expected))) in TARGETS.iter().zip(new.iter().zip(expected)) {
            assert_eq!(lost, expected, "{name} to {target:?}");
            let lost = lost.clone();
            all.attached += lost.attached;
            all.detached += lost.detached;
            all.detached_by_name += lost.detached_by_name;
            all.scopes += lost.scopes;
            all.hidden.extend(lost.hidden);
        }
        for target in [Target::Same, Target::Lines, Target::Compact] {
            assert!(converted(bytes, target).1.is_nothing(), "{name} to {target:?}");
        }
    }
    assert!(
        all.attached > 0 && all.detached > 0 && all.detached_by_name > 0 && all.scopes > 0,
        "{all:?}"
    );
    assert!(
        LATER_TYPES.iter().all(|name| all.hidden.iter().any(|(hidden, _)| hidden == name)),
        "{all:?}"
    );
    // Allocations that no function is named for.
    let (tracked, _) = converted(&unpacked("node24-tracking"), Target::Node20);
    let untold = with_more(&tracked, |file| {
        file.0["snapshot"]["trace_function_count"] = json!(0);
        for list in ["trace_function_infos", "trace_tree"] {
            file.0[list] = json!([]);
        }
    });
    let (_, lost) = converted(&untold, Target::Node24);
    assert!(
        lost.allocated > 0 && lost == without(&File::of(&untold), Target::Node24).1,
        "{lost:?}"
    );
}

#[test]
fn what_is_not_known_is_named() {
    let bytes = with_more(&unpacked("chromium-dom"), |file| {
        let fields = file.meta()["sample_fields"].as_array_mut().unwrap();
        fields.push(json!("mood"));
        file.meta()["scope_use_fields"].as_array_mut().unwrap()[0] = json!("other");
    });
    let text = String::from_utf8(bytes).unwrap().replacen(
        "\"strings\":",
        "\"more\":[1,{}],\n\"strings\":",
        1,
    );
    // An empty list of any name loses nothing.
    let text = text.replacen("\"strings\":", "\"empty\":[ ],\n\"strings\":", 1);
    let (_, lost) = converted(text.as_bytes(), Target::Same);
    let unknown = ["samples.mood", "scopes", "scope_context_vars", "scope_uses", "more"]
        .map(String::from)
        .to_vec();
    assert_eq!(lost, Lost { unknown, ..Lost::default() });
}

/// DevTools' answers (studies/heap-snapshots) about these files and every object of them.
fn answers(files: &[(String, &[u8])]) -> Option<Vec<(Value, String)>> {
    let (study, node) = heaplab_oracle::devtools()?;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).with_extension("heapsnapshot");
    for (name, bytes) in files {
        fs::write(path(name), bytes).unwrap();
    }
    let asked = Command::new(node)
        .arg(study.join("judge/ask.mjs"))
        .arg("answers")
        .args(files.iter().map(|(name, _)| path(name)))
        .arg("-o")
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let about = |(name, _): &(String, _)| {
        let out = folder.path().join(name);
        let of_file = serde_json::from_slice(&fs::read(out.join("answers.json")).unwrap()).unwrap();
        (of_file, fs::read_to_string(out.join("objects.tsv")).unwrap())
    };
    Some(files.iter().map(about).collect())
}

#[test]
fn devtools_answers_as_about_the_file_without_what_is_lost() {
    for heap in converted_heaps() {
        let name = heap.name;
        let targets = match name {
            "chromium" => &[0, 1, 2, 3][..],
            "tracking" => &[0, 3],
            _ => &[1],
        };
        let mut files = vec![("before".to_owned(), &heap.bytes[..])];
        for nth in targets.iter().copied() {
            files.push((format!("new-{nth}"), &heap.converted[nth].0));
            files.push((format!("expected-{nth}"), &heap.expected[nth].0));
        }
        let Some(answered) = answers(&files) else { return };
        let (before, _) = &answered[0];
        let named = |answers: &Value, class: &str| -> u64 {
            let classes = answers["classes"].as_array().unwrap().iter();
            classes
                .filter(|found| found["name"].as_str().unwrap().starts_with(class))
                .map(|found| found["count"].as_u64().unwrap())
                .sum()
        };
        for (nth, pair) in targets.iter().copied().zip(answered[1..].chunks_exact(2)) {
            let (target, lost) = (TARGETS[nth], &heap.converted[nth].1);
            let [(after, objects), (expected, expected_objects)] = pair else { unreachable!() };
            let differing = expected
                .as_object()
                .unwrap()
                .iter()
                .find(|(key, value)| after[key.as_str()] != **value);
            assert!(
                differing.is_none(),
                "{name} to {target:?}: {:?}",
                differing.map(|(key, _)| key)
            );
            assert!(objects == expected_objects, "{name} to {target:?}: objects differ");
            // Figures in the help text.
            let total = |answers: &Value| answers["total_bytes"].as_u64().unwrap();
            assert_eq!(
                total(before),
                total(after) + lost.extra_native_bytes,
                "{name} to {target:?}"
            );
            assert_eq!(
                (&before["nodes"], &before["edges"]),
                (&after["nodes"], &after["edges"]),
                "{name} to {target:?}"
            );
            let loses_shapes = lost.hidden.iter().any(|(name, _)| name == "object shape");
            assert_eq!(
                named(after, "(object shape)") == 0,
                loses_shapes || named(before, "(object shape)") == 0,
                "{name} to {target:?}"
            );
            assert_eq!(
                named(after, "Detached ") == 0,
                lost.detached > 0 || named(before, "Detached ") == 0,
                "{name} to {target:?}"
            );
            if lost.hidden.is_empty() && lost.detached + lost.attached + lost.detached_by_name == 0
            {
                assert_eq!(before["classes"], after["classes"], "{name} to {target:?}");
            }
        }
    }
}
