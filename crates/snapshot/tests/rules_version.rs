//! A changed answer of the analysis requires a new [`RULES_VERSION`]: otherwise indices keep the
//! old rules' answers. This test notices a change by a hash of the summaries of real snapshots.

use flate2::read::GzDecoder;
use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::{Analysis, Options, RULES_VERSION};
use heaplab_snapshot::summary::Summary;
use std::io::Read;
use xxhash_rust::xxh3::Xxh3Default;

/// The version of the rules, and the hashes of their answers about the files.
const KNOWN: (u32, u64) = (3, 2_065_542_179_982_893_157);

#[test]
fn answers_change_with_the_version_of_the_rules_alone() {
    let files: [&[u8]; 5] = [
        include_bytes!("devtools/chromium-dom.heapsnapshot.gz"),
        include_bytes!("devtools/made-places.heapsnapshot.gz"),
        include_bytes!("devtools/node12-weak.heapsnapshot.gz"),
        include_bytes!("devtools/node20-names.heapsnapshot.gz"),
        include_bytes!("devtools/node24-tracking.heapsnapshot.gz"),
    ];
    let mut hash = Xxh3Default::new();
    for file in files {
        let mut bytes = Vec::new();
        GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        let snapshot = Snapshot::read(&bytes).unwrap();
        hash.update(&bytes_of(&Summary::of(&Analysis::of(&snapshot, &Options::default()))));
    }
    assert_eq!(
        (RULES_VERSION, hash.digest()),
        KNOWN,
        "what a summary shows has changed: count RULES_VERSION up, and write both here (a summary that only shows more needs a new version, too)"
    );
}

/// All of the answers; lengths before the parts they measure.
fn bytes_of(summary: &Summary) -> Vec<u8> {
    let Summary { node_count, edge_count, statistics: sums, classes, scripts } = summary;
    let mut out = Vec::new();
    let mut put = |numbers: &[u64], text: &[u8]| {
        numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
        out.extend(text);
    };
    let counts = [*node_count, *edge_count, sums.total_bytes, sums.native_bytes];
    put(&counts, b"");
    put(&[sums.typed_array_bytes, sums.code_bytes, sums.string_bytes, sums.js_array_bytes], b"");
    put(&[sums.system_bytes, classes.len() as u64], b"");
    for class in classes {
        let (script, line, column) = class.place.unwrap_or_default();
        put(&[class.count, class.self_size, class.retained_size], b"");
        put(&[i64::from(class.distance) as u64, u64::from(class.place.is_some())], b"");
        put(&[script, line, column].map(u64::from), b"");
        put(&[class.name.len() as u64], &class.name);
    }
    put(&[scripts.names().len() as u64], b"");
    for (script, name) in scripts.names() {
        put(&[u64::from(script), name.len() as u64], name.as_bytes());
    }
    out
}
