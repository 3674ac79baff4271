//! Compares our answers with DevTools': for each FILE.heapsnapshot with FILE.answers/ beside it, class by class and object by object.

use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::{Analysis, Options};
use std::collections::BTreeMap;
use std::path::Path;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    for path in std::env::args().skip(1) {
        match compare(Path::new(&path)) {
            Ok(line) => println!("{path}: {line}"),
            Err(error) => println!("{path}: {error}"),
        }
    }
    Ok(())
}

fn compare(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path)?;
    let snapshot = Snapshot::read(&bytes)?;
    let answers = path.with_extension("answers");
    let analysis = Analysis::of(&snapshot, &Options::default());
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(answers.join("answers.json"))?)?;
    let theirs: BTreeMap<String, String> = json["classes"]
        .as_array()
        .ok_or("no classes")?
        .iter()
        .map(|class| {
            let row = format!("{} {} {} {}", class["count"], class["self"], class["retained"], class["distance"]);
            (class["key"].as_str().unwrap_or("").to_owned(), row)
        })
        .collect();
    let ours: BTreeMap<String, String> = analysis
        .shown_classes()
        .map(|(_, class)| {
            let key = String::from_utf8_lossy(&class.key()).into_owned();
            (key, format!("{} {} {} {}", class.count, class.self_size, class.retained_size, class.distance))
        })
        .collect();
    let mut wrong_classes = 0;
    for key in theirs.keys().chain(ours.keys().filter(|key| !theirs.contains_key(*key))) {
        if theirs.get(key) != ours.get(key) {
            wrong_classes += 1;
            if wrong_classes < 6 {
                println!("  class {key:?}: theirs {:?}, ours {:?}", theirs.get(key), ours.get(key));
            }
        }
    }
    let keys: Vec<&str> = json["keys"].as_array().ok_or("no keys")?.iter().filter_map(|key| key.as_str()).collect();
    let our_keys: Vec<String> = analysis.classes().iter().map(|class| String::from_utf8_lossy(&class.key()).into_owned()).collect();
    let graph = &snapshot.graph;
    let mut wrong_nodes = 0;
    for (node, line) in (0u32..).zip(std::fs::read_to_string(answers.join("objects.tsv"))?.lines()) {
        let fields: Vec<&str> = line.split('\t').collect();
        let key = fields[5].parse::<usize>().ok().and_then(|number| keys.get(number)).copied().unwrap_or("?");
        let theirs = format!("{} {key:?} {}", fields[..5].join(" "), fields[6]);
        let ours = format!(
            "{} {} {} {} {} {:?} {}",
            graph.id(node),
            analysis.self_size(node),
            analysis.retained_size(node),
            analysis.distance(node),
            graph.id(analysis.dominator(node)),
            our_keys[analysis.class_of(node) as usize],
            analysis.detachedness(node)
        );
        if theirs != ours {
            wrong_nodes += 1;
            if wrong_nodes < 6 {
                println!("  node {node}: theirs {theirs}, ours {ours}");
            }
        }
    }
    Ok(format!("{wrong_classes} of {} classes, {wrong_nodes} of {} nodes differ", theirs.len(), graph.node_count()))
}
