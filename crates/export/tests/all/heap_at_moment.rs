//! A heap that ran a real workload, as a heap snapshot: all committed bytes, with every live block
//! inside.

use heaplab_arena::Arenas;
use heaplab_export::{About, HeapAtMoment};
use heaplab_heap::structure;
use heaplab_metaspace::Metaspaces;
use heaplab_profile::{Profile, ProfileOptions};
use heaplab_replay::{Families, Of};
use heaplab_snapshot::{Snapshot, analysis, analysis::Analysis};
use heaplab_trace::bundle::{Bundle, BundleWriter, Selection};
use heaplab_trace::import;
use std::path::{Path, PathBuf};

/// Heaps that can be walked.
const HEAPS: Families = Families(&[&Of(Metaspaces), &Of(Arenas)]);

/// A JVM's metaspace.
fn imported(folder: &Path) -> Bundle {
    let log =
        std::fs::read(root().join("crates/jvm/tests/data/jvm-log/jdk-17.0.15.log.gz")).unwrap();
    let imported = folder.join("jvm.heaplab");
    let mut writer = BundleWriter::create(&imported).unwrap();
    let found = heaplab_jvm::import(&log[..], None, &import::ImportOptions::default(), &mut writer)
        .unwrap();
    writer.finish(&found.tables, found.meta).unwrap();
    Bundle::open(&imported).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The file's bytes equal the committed bytes of the heap's footprint, and every live block lies in
/// the file.
fn check(bundle: &Bundle, names: &[&str]) {
    let (tables, all) = (bundle.tables(), Selection::default());
    let profile =
        Profile::of(tables, &mut bundle.events(all).unwrap(), &ProfileOptions::default()).unwrap();
    for (name, (at, is_end)) in names
        .iter()
        .flat_map(|name| [(&profile.peak, false), (&profile.end, true)].map(|at| (*name, at)))
    {
        let heap = HEAPS.parse(name).unwrap();
        let heap = HeapAtMoment::at(heap.as_ref(), bundle, all, at, is_end).unwrap();
        let places = heap.blocks.iter().map(|(address, block)| (*address, block.size as usize));
        structure::check(&heap.standing.parts, &heap.standing.footprint, places).unwrap();
        let committed = heap.standing.footprint.committed_bytes.unwrap();
        let about = About::default();
        let snapshot = heap.snapshot(bundle, name, "", &about);
        let mut bytes = Vec::new();
        assert!(snapshot.write(&mut bytes).unwrap().ids_last);
        let snapshot = Snapshot::read(&bytes).unwrap();
        let analysis = Analysis::of(&snapshot, &analysis::Options::default());
        let graph = &snapshot.graph;
        assert_eq!(
            (analysis.retained_size(graph.root()), analysis.total_bytes()),
            (committed, committed),
            "{name}"
        );
        let blocks = graph.nodes().filter(|node| graph.id(*node) % 2 == 1 && graph.id(*node) > 1);
        assert_eq!(
            blocks.map(|block| analysis.self_size(block)).sum::<u64>(),
            at.live.bytes,
            "{name}"
        );
    }
}

#[test]
fn the_root_retains_what_the_heap_has_committed() {
    let folder = tempfile::tempdir().unwrap();
    let metaspaces = [
        "metaspace:jdk17",
        "metaspace:jdk18,reclaim=aggressive",
        "metaspace:jdk16",
        "metaspace:jdk11",
    ];
    let bundle = imported(folder.path());
    check(&bundle, &metaspaces);
    check(&bundle, &["elastic", "elastic:growth=fast,reclaim=trim", "bump"]);
    check(&Bundle::open(&root().join("traces/sqlite.heaplab")).unwrap(), &["elastic", "bump"]);
}
