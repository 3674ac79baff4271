//! A real JVM's metaspace as a heap snapshot: retained bytes are the committed bytes, at many
//! moments of its log.

use heaplab_export::{About, MetaspaceSnapshot};
use heaplab_jvm::{At, report, shadow_at};
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::validate::validate;
use heaplab_snapshot::{NodeType, Snapshot};
use heaplab_trace::Event;
use heaplab_trace::import;
use heaplab_trace::source::Slice;
use heaplab_trace::tables::Tables;
use std::collections::BTreeMap;

const LOGS: [&[u8]; 3] = [
    include_bytes!("../../../jvm/tests/data/jvm-log/jdk-17.0.15.log.gz"),
    include_bytes!("../../../jvm/tests/data/jvm-log/jdk-25.0.2.log.gz"),
    include_bytes!("../../../jvm/tests/data/jvm-log/jdk-17-refused.log.gz"),
];

fn recorded(log: &[u8]) -> (Vec<Event>, Tables) {
    let mut events = Vec::new();
    let imported =
        heaplab_jvm::import(log, None, &import::ImportOptions::default(), &mut events).unwrap();
    (events, imported.tables)
}

fn written(tables: &Tables, events: &[Event], at: At) -> (Vec<u8>, bool) {
    let shadow = shadow_at(tables, &mut Slice(events), 0, at).unwrap();
    let about = About::default();
    let objects_born = events.iter().map(|event| event.object + 1).max().unwrap_or(0);
    let snapshot = MetaspaceSnapshot {
        tables,
        shadow: &shadow,
        process: 0,
        objects_born,
        moment: "then",
        about: &about,
    };
    let mut bytes = Vec::new();
    let written = snapshot.write(&mut bytes).unwrap();
    let report = validate(&bytes, &mut |_, _| ());
    assert!(report.is_good() && report.oddities.is_empty(), "{report:?}");
    (bytes, written.ids_last)
}

#[test]
fn what_is_retained_is_what_is_committed() {
    for log in LOGS {
        let (events, tables) = recorded(log);
        for row in (0..events.len()).step_by(events.len() / 12) {
            let at = At::Row(row as u64);
            let statistics = report(&tables, &mut Slice(&events), 0, at).unwrap().statistics;
            let (bytes, ids_last) = written(&tables, &events, at);
            let snapshot = Snapshot::read(&bytes).unwrap();
            let analysis = Analysis::of(&snapshot, &Options::default());
            assert_eq!(
                (analysis.total_bytes(), ids_last),
                (statistics.committed_bytes(), true),
                "row {row}"
            );
            let graph = &snapshot.graph;
            assert_eq!(analysis.retained_size(graph.root()), statistics.committed_bytes());
            let loaders = graph
                .edges(graph.root())
                .filter(|edge| snapshot.strings.text(graph.edge_name(*edge)) == "loader");
            let retained: u64 =
                loaders.map(|loader| analysis.retained_size(graph.target(loader))).sum();
            // JDK 17 with CDS has blocks in the first 1 KB of class space, outside of all chunks.
            let beyond = retained - statistics.in_use().committed_bytes;
            assert!(beyond <= 1024, "chunks in use, row {row}: {beyond} more");
            let requested: u64 = statistics.kinds.iter().map(|kind| kind.requested_bytes).sum();
            let blocks =
                graph.nodes().filter(|node| graph.id(*node) % 2 == 1 && graph.id(*node) > 1);
            assert_eq!(
                blocks.map(|block| analysis.self_size(block)).sum::<u64>(),
                requested,
                "row {row}"
            );
        }
    }
}

/// Two files of a recording use an id for the same thing: a block of one type, a chunk of one size
/// or one that grew.
#[test]
fn ids_last_from_one_moment_to_another() {
    let (events, tables) = recorded(LOGS[0]);
    let named = |at| {
        let (bytes, _) = written(&tables, &events, at);
        let snapshot = Snapshot::read(&bytes).unwrap();
        let graph = &snapshot.graph;
        let row = |node| {
            (
                graph.id(node),
                (graph.node_type(node), snapshot.strings.text(graph.node_name(node)).into_owned()),
            )
        };
        graph.nodes().map(row).collect::<BTreeMap<u32, (NodeType, String)>>()
    };
    let (middle, end) = (named(At::Row(events.len() as u64 / 2)), named(At::End));
    let both: Vec<u32> = middle.keys().filter(|id| end.contains_key(id)).copied().collect();
    assert!(
        both.len() > 1000 && both.len() < end.len(),
        "{} of {} and {}",
        both.len(),
        middle.len(),
        end.len()
    );
    for id in both {
        let grew = middle[&id].1.starts_with("chunk of ") && end[&id].1.starts_with("chunk of ");
        let was_current = middle[&id].1 == "(free)" && end[&id].1 == "(waste)";
        assert!(
            middle[&id] == end[&id] || grew || was_current,
            "{id}: {:?}, then {:?}",
            middle[&id],
            end[&id]
        );
    }
}
