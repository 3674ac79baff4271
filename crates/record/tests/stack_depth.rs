//! Stacks have exactly the requested frames: one place below a deep recursion is one stack.

mod common;

use common::{compile, options, record};
use heaplab_trace::Op;
use std::collections::BTreeSet;

#[test]
fn a_deep_recursion_is_one_stack_of_as_many_frames_as_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "deep", "cc", &[]) else { return };
    for depth in [1, 2, 16, 64] {
        let mut options = options(folder.path(), &[&program]);
        options.spool = folder.path().join(format!("{depth}.spool"));
        options.stack_depth = depth;
        let recording = record(&options);
        let tables = &recording.tables;
        let ours =
            recording.events.iter().filter(|event| event.op == Op::Alloc && event.size == 4321);
        let stacks: Vec<u32> = ours.map(|event| event.stack).collect();
        assert_eq!(stacks.len(), 1000, "depth {depth}");
        let frames = |stack: u32| tables.frames_of(stack).collect::<Vec<u32>>();
        for event in &recording.events {
            assert!(
                frames(event.stack).len() <= depth as usize,
                "depth {depth}: {:?}",
                frames(event.stack)
            );
        }
        // `main` and its callers are under it: the start of a recursion this deep is no longer
        // visible.
        let deep: BTreeSet<u32> = stacks[depth as usize..].iter().copied().collect();
        assert_eq!(deep.len(), 1, "depth {depth}");
        let of = frames(stacks[999]);
        assert_eq!(of.len(), depth as usize);
        assert!(
            of.iter().skip(1).all(|frame| *frame == of[of.len() - 1]),
            "the same call all the way: {of:?}"
        );
        let all: BTreeSet<u32> = stacks.iter().copied().collect();
        assert!(all.len() <= depth as usize, "depth {depth}: {} stacks", all.len());
        let modules = of.iter().filter_map(|frame| tables.frames[*frame as usize].module);
        let paths: BTreeSet<&str> =
            modules.map(|module| tables.modules[module as usize].path.as_str()).collect();
        assert_eq!(
            paths,
            BTreeSet::from([program.to_str().unwrap()]),
            "the program's frames, none of the recorder's"
        );
    }
}
