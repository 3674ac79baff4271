//! Who changes an answer of the analysis must count [`RULES_VERSION`] up: summaries that indices
//! have kept are otherwise those of the old rules. This notices, by a hash of the summaries of real
//! snapshots.

use flate2::read::GzDecoder;
use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::{Analysis, Options, RULES_VERSION};
use heaplab_snapshot::index::{Key, Summary};
use std::io::Read;
use xxhash_rust::xxh3::Xxh3Default;

/// The version of the rules, and what they answer about the files.
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
        let index = Summary::of(&Analysis::of(&snapshot, &Options::default()))
            .to_index(&Key { file_bytes: 0, content_hash: 0 });
        // Behind the magic, the two versions and the key; before the checksum.
        hash.update(&index[40..index.len() - 8]);
    }
    assert_eq!(
        (RULES_VERSION, hash.digest()),
        KNOWN,
        "what a summary shows has changed: count RULES_VERSION up, and write both here (a summary that only shows more needs a new version, too)"
    );
}
