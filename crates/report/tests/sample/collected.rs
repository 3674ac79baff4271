//! A heap that collects, at two moments, with a page that is half free.

use heaplab_heap::{Collection, FreeBlocks, FreeLists, Part, Role, SpaceState, Work};
use heaplab_report::{HeapAt, HeapMoment};

const PAGE_BYTES: usize = 0x4_0000;

/// Four collections of which the second and the last are full.
pub fn heap_at(heap: &str) -> HeapAt {
    let moment = |name: &str, births| HeapMoment {
        name: name.into(),
        births,
        parts: parts(),
        losses: vec!["128 KiB in one hole stay unused.".into()],
    };
    HeapAt {
        heap: heap.into(),
        collections: (1..=4).map(collection).collect(),
        earlier: vec![moment("after collection 2 (mark-compact, forced)", Some(2_000))],
        peak: None,
        last: moment("at the end", None),
    }
}

fn collection(number: u64) -> Collection {
    let full = number.is_multiple_of(2);
    let state = |used: u64| SpaceState {
        used_bytes: used * 1024,
        committed_bytes: 256 * 1024 * number,
        waste_bytes: Some(24 * number),
        ..SpaceState::default()
    };
    let free = |bytes| FreeBlocks { blocks: 1, bytes };
    Collection {
        kind: if full { "mark-compact" } else { "scavenge" }.into(),
        cause: if full { "forced" } else { "allocation" }.into(),
        births: 1_000 * number,
        before: state(200 * number),
        after: state(if full { 100 * number } else { 210 * number }),
        free_lists: full.then(|| FreeLists {
            smallest_bytes: vec![24, 64, 2_048],
            swept: vec![free(48), free(0), free(131_072)],
            ..FreeLists::default()
        }),
        work: Some(Work {
            marked_bytes: if full { 90 * 1024 * number } else { 0 },
            ..Work::default()
        }),
        pause_ns: Some(1_500_000 * number),
        ..Collection::default()
    }
}

/// One page: a header, blocks up to its middle, one free block.
fn parts() -> Vec<Part> {
    let at = 0x10_0000;
    let (middle, end) = (at + PAGE_BYTES / 2, at + PAGE_BYTES);
    vec![
        Part::group(0, Role::Group, "old space"),
        Part::new(1, Role::Chunk, "page", at..end),
        Part::new(2, Role::Vacant, "(header)", at..at + 256),
        Part::new(2, Role::Blocks, "blocks", at + 256..middle),
        Part::new(2, Role::Vacant, "(free, 2048 bytes and more)", middle..end),
    ]
}
