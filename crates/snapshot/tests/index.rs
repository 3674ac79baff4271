//! Indices of real snapshots answer as the file does, for that file alone. A changed index gives an
//! error or wrong answers, never a panic.

use flate2::read::GzDecoder;
use heaplab_snapshot::analysis::{Analysis, Filter, Options, PathLimits, RULES_VERSION};
use heaplab_snapshot::index::{self, IndexError, Indexed, Key};
use heaplab_snapshot::session::SnapshotIds;
use heaplab_snapshot::shortest_paths::ShortestPaths;
use heaplab_snapshot::summary::Summary;
use heaplab_snapshot::{ReadOptions, Snapshot, diff};
use proptest::prelude::*;
use std::io::Read;
use xxhash_rust::xxh3::xxh3_128;

const FILES: [&[u8]; 5] = [
    include_bytes!("devtools/chromium-dom.heapsnapshot.gz"),
    include_bytes!("devtools/made-places.heapsnapshot.gz"),
    include_bytes!("devtools/node12-weak.heapsnapshot.gz"),
    include_bytes!("devtools/node20-names.heapsnapshot.gz"),
    include_bytes!("devtools/node24-tracking.heapsnapshot.gz"),
];
/// A root with a plain object, and what that refers to.
const SMALL: &[u8] = br#"{"snapshot":{"meta":{"node_fields":["type","name","id","self_size","edge_count","detachedness"],
"node_types":[["synthetic","object","string","native"],"string","number","number","number","number"],
"edge_fields":["type","name_or_index","to_node"],"edge_types":[["property","element"],"string_or_number","node"],
"location_fields":["object_index","script_id","line","column"]},"node_count":4,"edge_count":4},
"nodes":[0,0,1,0,1,0, 1,1,3,16,2,0, 2,2,5,24,0,0, 3,3,7,32,1,2],
"edges":[0,2,6, 0,2,12, 1,0,18, 0,1,6],"locations":[6,4,1,2],"strings":["(root)","Object","text","<div>"]}"#;
const HASH_BYTES: usize = 16;

/// Bytes at a multiple of 8, as in a mapped file.
struct Aligned {
    words: Vec<u64>,
    len: usize,
}

impl Aligned {
    fn of(bytes: &[u8]) -> Aligned {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        Aligned { words: words.collect(), len: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        &zerocopy::IntoBytes::as_bytes(&self.words[..])[..self.len]
    }
}

fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn key(file: &[u8]) -> Key {
    Key::of(file, &ReadOptions::default(), &Options::default())
}

fn index_of(file: &[u8], options: &Options) -> Vec<u8> {
    let snapshot = Snapshot::read(file).unwrap();
    let analysis = Analysis::of(&snapshot, options);
    let mut out = Vec::new();
    let key = Key::of(file, &ReadOptions::default(), options);
    index::write(&analysis, &key, &mut out).unwrap();
    out
}

/// With the hash that a whole index of these bytes has.
fn rehashed(mut index: Vec<u8>) -> Vec<u8> {
    let body = index.len() - HASH_BYTES;
    let hash = xxh3_128(&xxh3_128(&index[..body]).to_ne_bytes());
    index[body..].copy_from_slice(&hash.to_ne_bytes());
    index
}

fn opened<T>(index: &[u8], file: &[u8], then: impl FnOnce(Result<Indexed, IndexError>) -> T) -> T {
    let index = Aligned::of(index);
    then(Indexed::open(index.bytes(), file, &key(file), 2))
}

/// Everything that a command asks, as text.
fn asked(analysis: &Analysis) -> String {
    let (snapshot, backward) = (analysis.snapshot(), analysis.backward());
    let graph = &snapshot.graph;
    let mut said = format!("{:?}\n{:?}\n", Summary::of(analysis), analysis.classes());
    for node in graph.nodes().step_by(graph.node_count().div_ceil(50)) {
        let mut retainers = analysis.retainers(backward, node);
        analysis.sort_by_edge_name(&mut retainers);
        said += &format!(
            "{node} {} {:?} {} {} {} {} {} {} {:?} {retainers:?} {:?} {:?}\n",
            analysis.name(node),
            graph.node_type(node),
            graph.id(node),
            analysis.self_size(node),
            analysis.retained_size(node),
            analysis.distance(node),
            analysis.detachedness(node),
            analysis.class_of(node),
            graph.edges(node).map(|edge| analysis.edge_name(edge)).collect::<Vec<_>>(),
            analysis.shortest_path(backward, node),
            analysis.dominator_chain(node),
        );
        analysis.retaining_paths(backward, node, PathLimits::default());
    }
    let nodes: Vec<u32> = graph.nodes().collect();
    let mut ways = ShortestPaths::new(analysis, backward, 20);
    for group in ways.groups(&nodes) {
        said +=
            &format!("{} {} {:?}\n", group.count, group.retained_bytes, ways.way(group.example));
    }
    said += &format!("{:?}\n{:?}\n", analysis.duplicate_strings(), analysis.allocation_sites());
    said += &format!("{:?}\n", analysis.sample_sizes());
    for filter in [Filter::RetainedByContexts, Filter::SharedByNativeContexts] {
        said += &format!("{:?}\n", analysis.filtered_classes(filter));
    }
    said += &format!("{:?}\n", SnapshotIds::of(snapshot));
    said += &format!("{:?}\n", diff::compare(analysis, analysis).len());
    said
}

#[test]
fn an_index_answers_as_the_file_does() {
    for file in FILES.map(unpacked) {
        let snapshot = Snapshot::read(&file).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        let index = index_of(&file, &Options::default());
        opened(&index, &file, |opened| {
            let opened = opened.unwrap();
            assert!(*opened.snapshot() == snapshot);
            assert!(asked(&opened.analysis()) == asked(&analysis), "the same answers");
            let mut again = Vec::new();
            index::write(&opened.analysis(), &key(&file), &mut again).unwrap();
            assert!(again == index, "written from itself it is the same");
        });
    }
}

#[test]
fn sizes_of_4_gib_are_kept_where_they_are_asked_for() {
    let file = String::from_utf8_lossy(SMALL).replace("5,24", "5,9000000000").into_bytes();
    let exact = Options { exact_sizes: true, ..Options::default() };
    let index = Aligned::of(&index_of(&file, &exact));
    let wanted = Key::of(&file, &ReadOptions::default(), &exact);
    let opened = Indexed::open(index.bytes(), &file, &wanted, 1).unwrap();
    assert_eq!(opened.snapshot().graph.self_size(2), 9_000_000_000);
    assert_eq!(opened.analysis().self_size(2), 9_000_000_000);
    assert_eq!(opened.analysis().retained_size(0), 9_000_000_048);
    let other = Indexed::open(index.bytes(), &file, &key(&file), 1);
    assert_eq!(other.err(), Some(IndexError::Stale), "DevTools keeps 32 bits");
}

#[test]
fn an_index_of_another_file_or_other_rules_is_refused() {
    let index = index_of(SMALL, &Options::default());
    let mut changed = SMALL.to_vec();
    let last = changed.len() - 4;
    changed[last] = b'D';
    opened(&index, &changed, |opened| assert_eq!(opened.err(), Some(IndexError::Stale)));
    let twice = ReadOptions { allow_duplicate_ids: true, ..ReadOptions::default() };
    let other = Key::of(SMALL, &twice, &Options::default());
    let aligned = Aligned::of(&index);
    assert_eq!(
        Indexed::open(aligned.bytes(), SMALL, &other, 1).err(),
        Some(IndexError::Stale),
        "what refuses duplicate ids does not take an index that took them"
    );
    for (at, found, error) in [
        (8, 4, IndexError::Version { found: 4 }),
        (12, RULES_VERSION + 1, IndexError::Rules { found: RULES_VERSION + 1 }),
    ] {
        let mut other = index.clone();
        other[at..at + 4].copy_from_slice(&u32::to_ne_bytes(found));
        opened(&rehashed(other), SMALL, |opened| assert_eq!(opened.err(), Some(error)));
    }
}

#[test]
fn a_damaged_index_is_refused_wherever_it_is_damaged() {
    let good = index_of(SMALL, &Options::default());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        opened(&bad, SMALL, |opened| assert!(opened.is_err(), "byte {at}"));
        opened(&good[..at], SMALL, |opened| assert!(opened.is_err(), "cut at {at}"));
    }
    opened(&[&good[..], &[0; 16]].concat(), SMALL, |opened| assert!(opened.is_err(), "longer"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_index_that_somebody_made_up_never_ends_the_program(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut index = index_of(SMALL, &Options::default());
        let body = index.len() - HASH_BYTES;
        for (at, byte) in changes {
            index[at.index(body)] = byte;
        }
        opened(&rehashed(index), SMALL, |opened| {
            if let Ok(opened) = opened {
                asked(&opened.analysis());
            }
        });
    }
}

/// Sets each word of the columns to a value just beyond its bound, and to a far one.
#[test]
fn numbers_beyond_a_column_are_noticed() {
    let good = index_of(SMALL, &Options::default());
    let (mut refused, mut taken) = (0, 0);
    for at in (0..good.len() - HASH_BYTES - 3).step_by(4) {
        for value in [0, 1, 4, 5, 6, 1 << 31, u32::MAX] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
            opened(&rehashed(bad), SMALL, |opened| match opened {
                Ok(opened) => {
                    asked(&opened.analysis());
                    taken += 1;
                }
                Err(_) => refused += 1,
            });
        }
    }
    assert!(refused > 500 && taken > 500, "{refused} refused, {taken} taken");
}
