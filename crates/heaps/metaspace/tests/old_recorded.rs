//! The old metaspace against JDK 11.0.13 itself: every chunk of a recorded program lies where it lay there, every request that a
//! free block served gets the same block, the same nodes are unmapped, and as much is committed at every moment.

use flate2::read::GzDecoder;
use heaplab_metaspace::old::recording::{self, Comparison, Event};
use std::io::Read;
use std::path::Path;

fn recorded(name: &str) -> Vec<Event> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces/metaspace").join(name);
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    recording::parse(&text).unwrap()
}

/// Replays, and compares everything but the used bytes, which a recording does not hold.
fn as_the_jvm(events: &[Event]) -> Comparison {
    let (metaspace, comparison) = recording::replay(events).unwrap();
    metaspace.check_deep().unwrap();
    assert_eq!(comparison.first_difference, None);
    assert_eq!((comparison.chunks_equal, comparison.blocks_equal), (comparison.chunks, comparison.blocks));
    assert_eq!(comparison.unmapped_here, comparison.unmapped);
    let mut class_before = 0;
    for moment in &comparison.moments {
        let said = &moment.said;
        assert_eq!(moment.ours.committed_bytes(), said.committed_bytes, "{said:?}");
        assert_eq!(moment.ours.class.committed_bytes, said.class_committed_bytes, "{said:?}");
        assert!(said.class_committed_bytes >= class_before, "class space never shrinks");
        class_before = said.class_committed_bytes;
    }
    comparison
}

#[test]
fn churn_commits_what_jdk_11_commits_and_every_chunk_lies_where_it_lay() {
    let comparison = as_the_jvm(&recorded("jdk11-churn.txt.gz"));
    assert!(comparison.chunks > 30_000 && comparison.blocks > 10 && comparison.unmapped > 20, "{comparison:?}");
    let steps: Vec<&str> = comparison.moments.iter().map(|moment| moment.said.step.as_str()).collect();
    assert_eq!(steps.iter().filter(|step| **step == "dropped").count(), 5);
}

#[test]
fn a_metaspace_that_decides_otherwise_is_found_out() {
    let mut events = recorded("jdk11-churn.txt.gz");
    // One loader less, and every chunk that it had is free for others.
    let victim = events.iter().position(|event| matches!(event, Event::Birth { arena: 40, .. })).unwrap();
    events.remove(victim);
    events.retain(|event| match event {
        Event::Allocate { arena, .. } | Event::Deallocate { arena, .. } | Event::Death { arena } => *arena != 40,
        _ => true,
    });
    let (_, comparison) = recording::replay(&events).unwrap();
    assert!(comparison.first_difference.is_some() && comparison.chunks_equal < comparison.chunks);
}
