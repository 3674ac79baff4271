//! The live blocks as a heap snapshot: its reader finds the profile's bytes, in all and beneath
//! every frame.

use crate::sums::legal;
use crate::workload::{events, tables, untimed, with_export};
use heaplab_export::{About, Export, HeapSnapshot, InUseAt, LiveBlocks, Written};
use heaplab_profile::{Amount, Profile};
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::validate::validate;
use heaplab_snapshot::{NodeType, Snapshot};
use heaplab_trace::source::Slice;
use heaplab_trace::tables::{Frame, Process, StackNode, Tables, Thread};
use heaplab_trace::{Event, Op, StackId};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MOMENTS: [InUseAt; 3] = [InUseAt::Peak, InUseAt::End, InUseAt::Asked(0)];

fn moment(profile: &Profile, moment: InUseAt) -> &heaplab_profile::Moment {
    match moment {
        InUseAt::Peak => &profile.peak,
        InUseAt::End => &profile.end,
        InUseAt::Asked(number) => &profile.moments[number],
    }
}

/// The file, which must be sound, and the writer's result.
fn written(export: &Export<'_>, events: &[Event], objects_born: u64) -> (Vec<u8>, Written) {
    let blocks =
        LiveBlocks::at(moment(export.profile, export.moment), export.tables, Slice(events))
            .unwrap();
    let mut bytes = Vec::new();
    let snapshot = HeapSnapshot {
        tables: export.tables,
        blocks,
        objects_born,
        moment: "then",
        about: &export.about,
    };
    let written = snapshot.write(&mut bytes).unwrap();
    let report = validate(&bytes, &mut |_, _| ());
    assert!(report.is_good() && report.oddities.is_empty(), "{report:?}");
    assert_eq!(written.profile.file_bytes, bytes.len() as u64);
    (bytes, written)
}

/// Bytes in use beneath each chain of callers, outermost first, by the profile.
fn expected(export: &Export<'_>) -> BTreeMap<Vec<String>, u64> {
    let mut beneath = BTreeMap::new();
    let mut add = |stack: StackId, live: Amount| {
        let mut path: Vec<String> =
            export.tables.frames_of(stack).map(|frame| export.tables.frame_label(frame)).collect();
        path.reverse();
        if path.is_empty() {
            path.push("(no stack recorded)".into());
        }
        if live.objects > 0 {
            (1..=path.len()).for_each(|depth| {
                *beneath.entry(path[..depth].to_vec()).or_default() += live.bytes
            });
        }
    };
    match export.moment {
        InUseAt::Peak => export.profile.stacks.iter().for_each(|row| add(row.stack, row.at_peak)),
        InUseAt::End => export.profile.stacks.iter().for_each(|row| add(row.stack, row.at_end)),
        InUseAt::Asked(number) => {
            export.profile.moments[number].stacks.iter().for_each(|row| add(row.stack, row.live))
        }
    }
    beneath
}

/// The same by the reader: retained sizes of frames, by their place.
fn found(analysis: &Analysis) -> BTreeMap<Vec<String>, u64> {
    let snapshot = analysis.snapshot();
    let graph = &snapshot.graph;
    let mut beneath: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    let mut waiting = vec![(graph.root(), Vec::new())];
    while let Some((node, path)) = waiting.pop() {
        for edge in graph.edges(node) {
            let target = graph.target(edge);
            let mut path: Vec<String> = path.clone();
            if graph.node_type(target) == NodeType::Code {
                path.push(snapshot.strings.text(graph.node_name(target)).into_owned());
                *beneath.entry(path.clone()).or_default() += analysis.retained_size(target);
            }
            waiting.push((target, path));
        }
    }
    beneath
}

fn check(tables: &Tables, events: &[Event]) {
    let has_mark = events.iter().any(|event| event.op == Op::Mark);
    for at in MOMENTS.into_iter().filter(|at| has_mark || !matches!(at, InUseAt::Asked(_))) {
        with_export(tables, events, at, |export, profile| {
            let live = moment(profile, at).live;
            let (bytes, written) = written(export, events, 0);
            let snapshot = Snapshot::read(&bytes).unwrap();
            let analysis = Analysis::of(&snapshot, &Options::default());
            let graph = &snapshot.graph;
            let blocks: Vec<u32> = graph
                .nodes()
                .filter(|node| graph.id(*node) % 2 == 1 && graph.id(*node) > 1)
                .collect();
            assert_eq!((blocks.len() as u64, analysis.total_bytes()), (live.objects, live.bytes));
            assert_eq!(
                blocks.iter().map(|block| analysis.self_size(*block)).sum::<u64>(),
                live.bytes
            );
            assert_eq!(
                (analysis.retained_size(graph.root()), graph.node_count() as u64),
                (live.bytes, written.profile.nodes)
            );
            assert_eq!(found(&analysis), expected(export));
            assert!(written.ids_last);
        });
    }
}

#[test]
fn frames_retain_what_is_live_beneath_them() {
    check(&tables(), &events());
    check(&tables(), &untimed(events()));
    check(&tables(), &[]);
}

#[test]
fn blocks_are_called_as_the_function_that_allocates_and_frames_as_they_are() {
    with_export(&tables(), &events(), InUseAt::Asked(0), |export, _| {
        let (bytes, _) = written(export, &events(), 8);
        let snapshot = Snapshot::read(&bytes).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        let mut classes: Vec<(String, u64, u64)> = analysis
            .shown_classes()
            .map(|(_, class)| {
                (String::from_utf8(class.name.clone()).unwrap(), class.count, class.retained_size)
            })
            .collect();
        classes.sort();
        let hostile = crate::workload::HOSTILE.to_owned();
        assert_eq!(classes, [("copy".into(), 1, 1000), (hostile, 2, 120), ("main".into(), 1, 100)]);
        let graph = &snapshot.graph;
        let text = |string| snapshot.strings.text(string).into_owned();
        assert_eq!(text(graph.node_name(graph.root())), "shop --open \"now\" at then");
        let edge = |name: &str| {
            (0..graph.edge_count() as u32).find(|edge| text(graph.edge_name(*edge)) == name)
        };
        assert_eq!(text(graph.node_name(graph.target(edge("shop.c:20").unwrap()))), "copy");
        assert_eq!(text(graph.node_name(graph.target(edge("process").unwrap()))), "shop (pid 77)");
    });
}

/// Two files of one recording: the same block has the same id in both, and no other block has it.
#[test]
fn ids_last_from_one_moment_to_another() {
    let ids = |at: InUseAt, born| {
        with_export(&tables(), &events(), at, |export, _| {
            let (bytes, written) = written(export, &events(), born);
            let snapshot = Snapshot::read(&bytes).unwrap();
            let graph = &snapshot.graph;
            let name = |node| snapshot.strings.text(graph.node_name(node)).into_owned();
            (
                graph
                    .nodes()
                    .map(|node| (graph.id(node), name(node)))
                    .collect::<BTreeMap<u32, String>>(),
                written.ids_last,
            )
        })
    };
    let (mark, lasting) = ids(InUseAt::Asked(0), 8);
    let (end, _) = ids(InUseAt::End, 8);
    // Object n has id 2 n + 3: 0 lives at both moments, 3 at the first, 6 at the second.
    assert!(
        lasting
            && mark[&3] == "main"
            && end[&3] == "main"
            && mark[&9] == crate::workload::HOSTILE
            && end[&15] == "copy",
        "{mark:?} {end:?}"
    );
    assert!(!end.contains_key(&9) && !mark.contains_key(&15));
    let frames = |ids: &BTreeMap<u32, String>| {
        ids.clone().into_iter().filter(|(id, _)| id % 2 == 0).collect::<BTreeMap<u32, String>>()
    };
    let both: Vec<(u32, String)> =
        frames(&mark).into_iter().filter(|(id, _)| end.contains_key(id)).collect();
    assert!(both.len() >= 2 && both.iter().all(|(id, name)| end[id] == *name), "{both:?}");
    // More objects than ids in 32 bits: the nodes get their own numbers.
    let (many, lasting) = ids(InUseAt::End, 1 << 31);
    assert!(!lasting && many.len() == end.len());
}

/// DevTools has 32 bits for a size; a larger block is several nodes, and no byte is lost.
#[test]
fn blocks_of_4_gib_and_more_keep_every_byte() {
    let sizes = [u64::from(u32::MAX), 1 << 32, (5 << 32) + 7, 0];
    let born = |(object, size): (usize, &u64)| Event {
        op: Op::Alloc,
        object: object as u64,
        size: *size,
        stack: 2,
        time_ns: 1,
        ..Event::default()
    };
    let events: Vec<Event> = sizes.iter().enumerate().map(born).collect();
    with_export(&tables(), &events, InUseAt::End, |export, profile| {
        let (bytes, written) = written(export, &events, 4);
        let snapshot = Snapshot::read(&bytes).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        assert_eq!(analysis.total_bytes(), profile.end.live.bytes);
        assert_eq!(found(&analysis), expected(export));
        // One, two, six and one, under the root, the process and four frames.
        assert_eq!(written.profile.nodes, 10 + 6);
    });
}

#[test]
fn processes_are_apart_and_allocators_are_not_named() {
    let frame = |function: &str| Frame { function: Some(function.into()), ..Frame::default() };
    let node = |parent, frame| StackNode { parent, frame };
    let process =
        |pid, name: &str| Process { pid, executable: format!("/bin/{name}"), ..Process::default() };
    let thread = |process| Thread { process, ..Thread::default() };
    let names = ["main", "<Shop as Open>::open", "alloc::raw_vec::RawVec<T>::grow", "__rust_alloc"];
    let tables = Tables {
        stacks: vec![StackNode::default(), node(0, 0), node(1, 1), node(2, 2), node(3, 3)],
        frames: names.iter().map(|name| frame(name)).collect(),
        processes: vec![process(5, "shop"), process(6, "till")],
        threads: vec![thread(0), thread(1)],
        ..Tables::default()
    };
    let born = |object, thread, size| Event {
        op: Op::Alloc,
        object,
        size,
        thread,
        process: thread,
        stack: 4,
        ..Event::default()
    };
    let events = [born(0, 0, 10), born(1, 1, 200), born(2, 1, 3000)];
    with_export(&tables, &events, InUseAt::End, |export, _| {
        let (bytes, _) = written(export, &events, 3);
        let snapshot = Snapshot::read(&bytes).unwrap();
        let analysis = Analysis::of(&snapshot, &Options::default());
        let graph = &snapshot.graph;
        let of = |name: &str| {
            let named =
                graph.nodes().filter(|node| snapshot.strings.text(graph.node_name(*node)) == name);
            named.map(|node| analysis.retained_size(node)).collect::<Vec<u64>>()
        };
        assert_eq!((of("shop (pid 5)"), of("till (pid 6)")), (vec![10], vec![3200]));
        assert_eq!(of("__rust_alloc"), [10, 3200]);
        let classes: Vec<&[u8]> =
            analysis.shown_classes().map(|(_, class)| class.name.as_slice()).collect();
        assert_eq!(classes, [b"fn <Shop as Open>::open"]);
    });
}

/// Events other than the profile's are refused.
#[test]
fn another_workload_than_the_profiles_is_an_error() {
    with_export(&tables(), &events(), InUseAt::Peak, |_, profile| {
        let error = LiveBlocks::at(&profile.peak, &tables(), Slice(&events()[..1]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("100 bytes in 1 objects") && error.contains("not the profile's events"),
            "{error}"
        );
    });
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let snapshot = HeapSnapshot {
        tables: &tables(),
        blocks: LiveBlocks::default(),
        objects_born: 0,
        moment: "end",
        about: &About::default(),
    };
    assert!(
        snapshot.write(&mut Full).unwrap_err().to_string().contains("cannot write the snapshot")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn frames_retain_what_is_live_beneath_them_in_any_workload(steps in proptest::collection::vec(any::<(u8, u16, u8, u8)>(), 0..300)) {
        check(&tables(), &legal(&steps));
    }
}
