//! Leaks in a real Chromium, three quarters of whose classes are Blink's own.

use flate2::read::GzDecoder;
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::leaks::{Born, Leaks};
use heaplab_snapshot::{NodeType, Snapshot};
use std::io::Read;

#[test]
fn what_leaked_are_a_pages_elements_and_not_what_blink_keeps_for_them() {
    let file = include_bytes!("devtools/chromium-dom.heapsnapshot.gz");
    let mut bytes = Vec::new();
    GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
    let snapshot = Snapshot::read(&bytes).unwrap();
    let analysis = Analysis::of(&snapshot, &Options::default());
    let graph = &snapshot.graph;
    let natives = || graph.nodes().filter(|node| graph.node_type(*node) == NodeType::Native);
    let is_blinks = |name: &str| name.contains("blink::");
    let (blinks, others): (Vec<u32>, Vec<u32>) =
        natives().partition(|node| is_blinks(&analysis.name(*node)));
    assert!(blinks.len() > 1000 && others.len() > 100, "{} and {}", blinks.len(), others.len());
    let born = Born::of_ids(natives().map(|node| graph.id(node)).collect());
    let leaks = Leaks::of(&analysis, &born, |_| true);
    let heads = || leaks.groups.iter().flat_map(|group| &group.heads);
    let named = |name: &str| heads().filter(|node| analysis.name(**node).contains(name)).count();
    assert_eq!(named("blink::"), 0);
    assert!(named("<div") > 0 && named("Detached <") > 0);
    assert!(leaks.objects > 0 && leaks.objects <= others.len() as u64);
}
