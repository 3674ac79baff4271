//! `heaplab export --on HEAP`: a heap that ran the workload as far as a moment, as a heap snapshot.
//!
//! The workload runs as in a replay, in this process: what is asked is where things are, not how
//! much time they take.

use super::{Args, written};
use crate::heaps::{self, Heap};
use anyhow::{Result, bail};
use heaplab_export::{About, LiveBlock, LiveBlocks, StandingHeap};
use heaplab_heap::{Part, Region};
use heaplab_profile::Moment;
use heaplab_profile::choose;
use heaplab_replay::Standing;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program;
use std::collections::HashMap;
use std::process::ExitCode;

/// The heap that `--on` names.
///
/// # Errors
/// There is none of that name, it is several, or it cannot be walked.
pub fn heap(name: &str) -> Result<Heap> {
    if name.trim().is_empty() {
        misasked!("--on: no heap is named; for example --on elastic");
    }
    let heaps = heaps::parse_list(name)
        .map_err(|error| crate::output::Misasked(format!("--on: {error:#}")))?;
    let [heap] = &heaps[..] else {
        misasked!("--on: a heap snapshot is of one heap, and {name} names {}", heaps.len());
    };
    heaps::FAMILIES
        .walked(&**heap)
        .map_err(|error| crate::output::Misasked(format!("--on: {error:#}")))?;
    Ok(heap.clone())
}

/// Runs the workload on the heap as far as the moment (the end: all of it), and writes what then
/// stands.
pub fn write(
    args: &Args,
    heap: &Heap,
    bundle: &Bundle,
    selection: Selection,
    at: &Moment,
    is_end: bool,
    about: &About,
) -> Result<ExitCode> {
    let stood = Stood::of(heap, bundle, selection, at, is_end)?;
    let own_bytes: u64 = stood.standing.parts.iter().map(Part::own_bytes).sum();
    if let Some(committed) =
        stood.standing.footprint.committed_bytes.filter(|committed| *committed != own_bytes)
    {
        // A heap that gives memory back in a thread of its own does so while it is walked.
        eprintln!(
            "heaplab: {heap} had {own_bytes} bytes committed while it was walked, and {committed} when that was done"
        );
    }
    let snapshot = StandingHeap {
        tables: bundle.tables(),
        parts: stood.standing.parts,
        blocks: stood.blocks,
        arenas: stood.arenas,
        objects_born: bundle.meta().objects,
        heap: &heap.to_string(),
        moment: &args.at,
        about,
    };
    written(args, |out| snapshot.write(out))
}

/// A heap that ran a workload as far as a moment.
struct Stood {
    standing: Standing,
    blocks: Vec<(usize, LiveBlock)>,
    arenas: HashMap<Region, u32>,
}

impl Stood {
    fn of(
        heap: &Heap,
        bundle: &Bundle,
        selection: Selection,
        at: &Moment,
        is_end: bool,
    ) -> Result<Stood> {
        // A moment before the first event has the number of the first row as well.
        let rows = match at {
            _ if is_end => u64::MAX,
            Moment { row: 0, live, .. } if live.objects == 0 => 0,
            moment => moment.row + 1,
        };
        let (program, at_end) = program::until(bundle, selection, rows)?;
        let live = LiveBlocks::at(at, bundle.tables(), bundle.events(selection)?)
            .map_err(choose::of_recording(bundle))?;
        let standing = heap.stand(&program).map_err(heaps::misasked)?;
        let slots: HashMap<u64, u32> = at_end.slots.into_iter().collect();
        let place = |block: &LiveBlock| {
            let slot = slots.get(&block.object)?;
            Some((standing.blocks.get(*slot as usize).copied().flatten()?, *block))
        };
        let blocks: Vec<_> = live.blocks().iter().filter_map(place).collect();
        let arenas =
            at_end.regions.into_iter().map(|(region, row)| (Region(region), row)).collect();
        if blocks.len() != slots.len() || blocks.len() != live.blocks().len() {
            bail!(
                "{}: at the moment {} objects are live, and the replay has {}, {} of them the same: its events are not in order; \
                 heaplab replay --verify --space says where",
                bundle.path().display(),
                live.blocks().len(),
                slots.len(),
                blocks.len()
            );
        }
        Ok(Stood { standing, blocks, arenas })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_heap::structure;
    use heaplab_profile::{NoObserver, Options, profile};
    use heaplab_snapshot::{Snapshot, analysis, analysis::Analysis};
    use heaplab_trace::bundle::BundleWriter;
    use heaplab_trace::import;
    use std::path::{Path, PathBuf};

    /// A JVM's metaspace.
    fn imported(folder: &Path) -> Bundle {
        let log =
            std::fs::read(root().join("crates/jvm/tests/data/jvm-log/jdk-17.0.15.log.gz")).unwrap();
        let imported = folder.join("jvm.heaplab");
        let mut writer = BundleWriter::create(&imported).unwrap();
        let found =
            heaplab_jvm::import(&log[..], None, &import::Options::default(), &mut writer).unwrap();
        writer.finish(&found.tables, found.meta).unwrap();
        Bundle::open(&imported).unwrap()
    }

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// What the file has is what the heap's footprint says is committed, to the byte, and every
    /// live block lies in it.
    fn check(bundle: &Bundle, names: &[&str]) {
        let (tables, all) = (bundle.tables(), Selection::default());
        let profile =
            profile(tables, &mut bundle.events(all).unwrap(), &Options::default(), &mut NoObserver)
                .unwrap();
        for (name, (at, is_end)) in names
            .iter()
            .flat_map(|name| [(&profile.peak, false), (&profile.end, true)].map(|at| (*name, at)))
        {
            let Stood { standing, blocks, arenas } =
                Stood::of(&heap(name).unwrap(), bundle, all, at, is_end).unwrap();
            let places = blocks.iter().map(|(address, block)| (*address, block.size as usize));
            structure::check(&standing.parts, &standing.footprint, places).unwrap();
            let (parts, about, objects_born) =
                (standing.parts, About::default(), bundle.meta().objects);
            let snapshot = StandingHeap {
                tables,
                parts,
                blocks,
                arenas,
                objects_born,
                heap: name,
                moment: "",
                about: &about,
            };
            let mut bytes = Vec::new();
            assert!(snapshot.write(&mut bytes).unwrap().ids_last);
            let snapshot = Snapshot::read(&bytes).unwrap();
            let analysis = Analysis::of(&snapshot, &analysis::Options::default());
            let graph = &snapshot.graph;
            let committed = standing.footprint.committed_bytes.unwrap();
            assert_eq!(
                (analysis.retained_size(graph.root()), analysis.total_bytes()),
                (committed, committed),
                "{name}"
            );
            let blocks =
                graph.nodes().filter(|node| graph.id(*node) % 2 == 1 && graph.id(*node) > 1);
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

    #[test]
    fn heaps_that_cannot_be_walked_are_refused_with_those_that_can() {
        for (name, expected) in [
            (
                "glibc",
                "the heaps that can are metaspace:jdk11, metaspace:jdk16, metaspace:jdk17, metaspace:jdk18, elastic, bump",
            ),
            ("jemalloc:narenas=1", "does not tell where"),
            ("mimalloc", "does not tell where"),
            ("elastic,metaspace:jdk17", "names 2"),
            ("elastik", "there is no heap"),
            ("", "for example --on elastic"),
        ] {
            let error = heap(name).unwrap_err().to_string();
            assert!(error.starts_with("--on: ") && error.contains(expected), "{name}: {error}");
        }
    }
}
