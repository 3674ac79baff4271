//! Names of scripts: every function of a script gives the same name, in files of several V8
//! versions.

use flate2::read::GzDecoder;
use heaplab_snapshot::scripts::Scripts;
use heaplab_snapshot::{NodeType, Snapshot};
use std::collections::HashMap;
use std::io::Read;

fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn every_function_of_a_script_tells_its_name() {
    let files: [(&[u8], &str); 3] = [
        (include_bytes!("devtools/node12-weak.heapsnapshot.gz"), "internal/timers.js"),
        (include_bytes!("devtools/node20-names.heapsnapshot.gz"), "node:internal/timers"),
        (include_bytes!("devtools/node24-tracking.heapsnapshot.gz"), "node:internal/timers"),
    ];
    for (file, timers) in files {
        let bytes = unpacked(file);
        let snapshot = Snapshot::read(&bytes).unwrap();
        let scripts = Scripts::of(&snapshot);
        let mut told: HashMap<u32, String> = HashMap::new();
        let mut alone = snapshot.clone();
        let is_function = |node| snapshot.graph.node_type(node) == NodeType::Closure;
        for place in snapshot.locations.iter().filter(|place| is_function(place.node)) {
            alone.locations = vec![*place];
            if let Some(name) = Scripts::of(&alone).name(place.script_id) {
                assert_eq!(told.entry(place.script_id).or_insert(name.to_owned()), name);
            }
        }
        let known: HashMap<u32, String> =
            scripts.names().map(|(id, name)| (id, name.to_owned())).collect();
        assert_eq!(known, told);
        assert!(known.len() > 50, "{}", known.len());
        let id = *known.iter().find(|(_, name)| *name == timers).unwrap().0;
        assert_eq!(scripts.place((id, 9, 0)), format!("{timers}:10:1"));
        assert_eq!(scripts.place((4_000_000_000, 9, 0)), "script 4000000000:10:1");
    }
}
