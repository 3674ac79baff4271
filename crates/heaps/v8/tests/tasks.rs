//! Tasks of a scavenge run in one of the orders that V8 may have, the same in every run. The order
//! does not change which objects live.

mod shapes;

use heaplab_heap::{Collected, Collection, Heap};
use heaplab_v8::{Spec, V8Heap};
use shapes::{Length, SHAPES, run, workload};

fn ran(shape: &str, tasks: usize) -> Vec<Collection> {
    let steps = workload(shape, Length { births: 30_000, every: 7_500, seed: 9 });
    let spec = Spec::parse(&format!("many,compact=never,tasks={tasks}")).unwrap();
    let mut heap = V8Heap::new(spec).unwrap();
    run(&mut heap, &steps, false);
    heap.check_deep().unwrap();
    heap.collections().to_vec()
}

#[test]
fn tasks_place_objects_elsewhere_and_keep_the_same_ones() {
    let mut placed_elsewhere = 0;
    for shape in [SHAPES[0], SHAPES[3], SHAPES[5]] {
        let alone = ran(shape, 1);
        for tasks in [2, 3, 8] {
            let together = ran(shape, tasks);
            assert_eq!(together, ran(shape, tasks), "{shape}: another run of {tasks} tasks");
            let full = |all: &[Collection]| {
                let full = all.iter().filter(|one| one.kind != "scavenge");
                full.map(|one| (one.births, one.work.map(|work| work.marked_bytes)))
                    .collect::<Vec<_>>()
            };
            assert_eq!(full(&together), full(&alone), "{shape}, {tasks} tasks");
            placed_elsewhere += usize::from(together != alone);
        }
    }
    assert!(placed_elsewhere >= 3, "{placed_elsewhere} of 9 runs differ from one task");
}
