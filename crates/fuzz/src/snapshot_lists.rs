//! The lists of a heap snapshot, within a header that is right: the bytes are split at zeros into
//! integers of nodes, of edges, and strings, so that the fuzzer reaches the scanners of integers
//! and of strings without having to write a header.

use heaplab_snapshot::{ReadOptions, Snapshot, strings};

/// One input.
pub fn run(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let [nodes, edges, words] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    let count = |list: &[u8]| list.iter().filter(|byte| **byte == b',').count() + 1;
    let (node_count, edge_count) = (count(nodes) / 5, count(edges) / 3);
    let header = format!(
        "{{\"snapshot\":{{\"meta\":{{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_count\"],\"node_types\":[[\"synthetic\",\"object\",\"native\"]],\
         \"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],\"edge_types\":[[\"property\",\"element\",\"weak\"]]}},\
         \"node_count\":{node_count},\"edge_count\":{edge_count}}},\"nodes\":["
    );
    let file =
        [header.as_bytes(), nodes, b"],\"edges\":[", edges, b"],\"strings\":[", words, b"]}"]
            .concat();
    let options = ReadOptions { threads: 1, allow_duplicate_ids: true, ..ReadOptions::default() };
    match Snapshot::read_with(&file, &options) {
        Ok(snapshot) => (0..snapshot.strings.len() as u32).for_each(|id| {
            let decoded = snapshot.strings.bytes(id);
            assert!(strings::units(&decoded) <= 6 * snapshot.strings.raw(id).len());
            snapshot.strings.text(id);
        }),
        Err(error) => assert!(error.offset as usize <= file.len()),
    }
}
