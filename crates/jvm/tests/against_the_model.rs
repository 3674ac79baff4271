//! The state rebuilt from a JVM's log beside the same workload run on `metaspace:jdk17`, chunk by
//! chunk: what HotSpot decided, and what its rules as implemented here decide.

use heaplab_jvm::import;
use heaplab_jvm::statistics::{FreeChunks, InUse, Space, Statistics};
use heaplab_jvm::{At, report};
use heaplab_metaspace::elastic::heap::{ArenaId, ElasticMetaspace};
use heaplab_metaspace::elastic::report::Report;
use heaplab_metaspace::plan::{ArenaPlan, Plan};
use heaplab_metaspace::spec::Spec;
use heaplab_trace::import::{ImportOptions, Imported};
use heaplab_trace::source::Slice;
use heaplab_trace::{Event, Op};
use std::collections::HashMap;
use std::ptr::NonNull;

const LOG: &[u8] = include_bytes!("data/jvm-log/jdk-17.0.15.log.gz");

fn recorded() -> (Vec<Event>, Imported) {
    let mut events = Vec::new();
    let imported = import(LOG, None, &ImportOptions::default(), &mut events).unwrap();
    (events, imported)
}

/// Runs the first `rows` events on the model.
fn replayed(events: &[Event], imported: &Imported) -> Report {
    let mut model = ElasticMetaspace::new(Spec::parse("jdk17").unwrap(), Plan::default()).unwrap();
    let mut arenas: HashMap<u32, ArenaId> = HashMap::new();
    let mut blocks: HashMap<u64, (u32, NonNull<u64>, usize)> = HashMap::new();
    for event in events {
        match event.op {
            Op::ArenaBirth => {
                let row = &imported.tables.arenas[event.arena as usize];
                arenas.insert(
                    event.arena,
                    model.birth(ArenaPlan::parse(&row.kind, &row.growth_policy)),
                );
            }
            Op::Alloc if event.counts() => {
                let words = (event.size / 8) as usize;
                let block = model.allocate_words(arenas[&event.arena], words).unwrap();
                blocks.insert(event.object, (event.arena, block, words));
            }
            Op::Free => {
                let (arena, block, words) = blocks.remove(&event.object).unwrap();
                // SAFETY: the recording's order is checked: the object is live, of this arena and
                // so many words, and nobody reads it.
                unsafe { model.deallocate_words(arenas[&arena], block, words) };
            }
            Op::ArenaDeath => {
                let id = arenas.remove(&event.arena).unwrap();
                blocks.retain(|_, (arena, _, _)| *arena != event.arena);
                // SAFETY: its blocks were forgotten just now.
                unsafe { model.death(id) };
            }
            _ => {}
        }
    }
    model.report()
}

fn in_use(space: &Space) -> Vec<InUse> {
    space.in_use.to_vec()
}

fn free(space: &Space) -> Vec<(u64, u64)> {
    space
        .free
        .iter()
        .map(|FreeChunks { chunks, committed_bytes, .. }| (*chunks, *committed_bytes))
        .collect()
}

#[test]
fn hotspot_and_its_rules_hold_the_same_chunks() {
    let (events, imported) = recorded();
    for rows in [events.len() / 4, events.len() / 2, events.len() * 3 / 4, events.len()] {
        let statistics: Statistics =
            report(&imported.tables, &mut Slice(&events), 0, At::Row(rows as u64))
                .unwrap()
                .statistics;
        let model = replayed(&events[..rows], &imported);
        for (space, ours) in model.spaces.iter().zip([&statistics.non_class, &statistics.class]) {
            assert_eq!(
                space.committed_bytes, ours.committed_bytes,
                "row {rows}, class {}",
                space.class
            );
            let mut levels = vec![InUse::default(); 15];
            for kind in &space.kinds {
                for (level, usage) in kind.usage.levels.iter().enumerate() {
                    levels[level].add(&InUse {
                        chunks: usage.chunks,
                        capacity_bytes: usage.capacity_bytes,
                        committed_bytes: usage.committed_bytes,
                        used_bytes: usage.used_bytes,
                        free_bytes: usage.free_bytes,
                        waste_bytes: usage.waste_bytes,
                    });
                }
            }
            assert_eq!(levels, in_use(ours), "row {rows}, class {}", space.class);
            let theirs: Vec<(u64, u64)> =
                space.free_chunks.iter().map(|free| (free.chunks, free.committed_bytes)).collect();
            assert_eq!(theirs, free(ours), "row {rows}, class {}", space.class);
        }
    }
}
