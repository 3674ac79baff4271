//! Strategies that change their search during a run: they equal the fast strategy while their
//! condition does not hold, and another one while it does.

mod shapes;

use heaplab_heap::{Collected, SpaceState};
use heaplab_v8::{Spec, V8Heap};
use shapes::{Length, SHAPES, run, workload};

fn ran(name: &str, shape: &str) -> V8Heap {
    let steps = workload(shape, Length { births: 24_000, every: 6_000, seed: 3 });
    let spec = Spec::parse(&format!("{name},version=7.9,compact=never")).unwrap();
    let mut heap = V8Heap::new(spec).unwrap();
    run(&mut heap, &steps, false);
    heap
}

/// Old space after each collection.
fn states(heap: &V8Heap) -> Vec<SpaceState> {
    heap.collections().iter().map(|one| one.after).collect()
}

#[test]
fn pressure_switches_where_half_of_the_limit_is_committed() {
    let [mixed, ..] = SHAPES;
    let fast = states(&ran("many-fast-path", mixed));
    assert_ne!(states(&ran("many", mixed)), fast);
    let calm = ran("many-pressure", mixed);
    assert!(states(&calm) == fast && !calm.old().switched);
    let pressed = ran("many-pressure,limit=10m", mixed);
    assert!(pressed.old().switched);
    let first = states(&pressed).iter().zip(&fast).position(|(ours, fast)| ours != fast).unwrap();
    let before = fast[..first].iter().map(|state| state.committed_bytes).max().unwrap();
    assert!(before > 5 << 20, "{first}: {fast:?}");
}

/// Where nothing moves within old space, it takes exactly the promoted bytes.
#[test]
fn feedback_switches_where_few_bytes_are_taken() {
    let mut outcomes = Vec::new();
    for shape in SHAPES {
        let heap = ran("many-feedback", shape);
        let all = heap.collections();
        let end = all.iter().rposition(|one| one.kind == "mark-sweep").unwrap();
        let begin = all[..end].iter().rposition(|one| one.kind == "mark-sweep").unwrap() + 1;
        let taken: u64 =
            all[begin..=end].iter().filter_map(|one| Some(one.work?.promoted_bytes)).sum();
        let large = |at: usize| all[at].spaces.iter().find(|space| space.name == "large").unwrap();
        if large(begin).before == large(end).after {
            assert_eq!(heap.old().switched, taken < all[end].after.used_bytes, "{shape}");
            outcomes.push(heap.old().switched);
        }
    }
    assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
}
