//! The old metaspace against the contract of heaps, against a plain model of its own, and rare path
//! by rare path.

use super::facts::{FIRST_NODE_WORDS, MEDIUM_WORDS, SMALL_WORDS, SPECIALIZED_WORDS, WORD};
use super::*;
use crate::plan::{ArenaPlan, LoaderKind, Plan};
use heaplab_address_space::{Call, Faults};
use heaplab_buddy::marks::expect;
use heaplab_heap::conformance::{drive, operations, pseudo_random};
use proptest::prelude::*;
use std::sync::Arc;

const KB: u64 = 1 << 10;

fn plan() -> Plan {
    Plan::new(vec![
        ArenaPlan::default(),
        ArenaPlan::parse("non-class", "standard"),
        ArenaPlan::parse("class", "hidden"),
        ArenaPlan::parse("non-class", "reflection"),
    ])
}

fn fresh() -> Metaspace11 {
    Metaspace11::new(Options11::default())
}

#[test]
fn heap_conforms_on_long_lists() {
    for seed in 0..12 {
        let driven =
            drive(Heap11::new(Options11::default(), plan()), &pseudo_random(seed, 3_000)).unwrap();
        assert!(driven.births > 1_000 && driven.refused == 0, "{driven:?}");
    }
}

#[test]
fn heap_conforms_under_a_limit_and_says_no() {
    let options = Options11 {
        limit_bytes: Some(6 << 20),
        class_space_bytes: 16 << 20,
        ..Options11::default()
    };
    let driven = drive(Heap11::new(options, plan()), &pseudo_random(3, 3_000)).unwrap();
    assert!(driven.births > 500 && driven.refused > 20, "{driven:?}");
}

/// One operation on the metaspace itself, in words, as of a JVM.
#[derive(Clone, Debug)]
enum Step {
    Birth { class: bool, loader: usize },
    Death(usize),
    Allocate { arena: usize, words: usize },
    Deallocate { arena: usize, block: usize },
    Purge,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let words = prop_oneof![8 => 1usize..60, 3 => 60usize..600, 2 => 600usize..9_000, 1 => 9_000usize..40_000];
    let step = prop_oneof![
        3 => (any::<bool>(), 1usize..4).prop_map(|(class, loader)| Step::Birth { class, loader }),
        2 => any::<usize>().prop_map(Step::Death),
        24 => (any::<usize>(), words).prop_map(|(arena, words)| Step::Allocate { arena, words }),
        5 => (any::<usize>(), any::<usize>()).prop_map(|(arena, block)| Step::Deallocate { arena, block }),
        1 => Just(Step::Purge),
    ];
    proptest::collection::vec(step, 1..250)
}

/// Address and words.
type Block = (usize, usize);

/// The shadow: the live blocks of each arena.
#[derive(Default)]
struct Shadow {
    arenas: Vec<(ArenaId, Vec<Block>)>,
}

/// Runs `steps`; fills every block with its own address and reads it back at its end.
fn run(metaspace: &mut Metaspace11, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut shadow = Shadow::default();
    for step in steps {
        match *step {
            Step::Birth { class, loader } => {
                let space = if class { Space::Class } else { Space::NonClass };
                shadow.arenas.push((metaspace.birth(space, LoaderKind::ALL[loader].0), Vec::new()));
            }
            Step::Death(which) if !shadow.arenas.is_empty() => {
                let (id, blocks) = shadow.arenas.swap_remove(which % shadow.arenas.len());
                blocks.iter().try_for_each(intact)?;
                metaspace.death(id);
            }
            Step::Allocate { arena, words } if !shadow.arenas.is_empty() => {
                let count = shadow.arenas.len();
                let (id, blocks) = &mut shadow.arenas[arena % count];
                if let Some(block) = metaspace.allocate(*id, words) {
                    let address = block.as_ptr() as usize;
                    // SAFETY: the block was just handed out with that many words.
                    (0..words).for_each(|index| unsafe {
                        block.cast::<usize>().add(index).write(address ^ index)
                    });
                    blocks.push((address, words));
                }
            }
            Step::Deallocate { arena, block } if !shadow.arenas.is_empty() => {
                let count = shadow.arenas.len();
                let (id, blocks) = &mut shadow.arenas[arena % count];
                if !blocks.is_empty() {
                    let (address, words) = blocks.swap_remove(block % blocks.len());
                    intact(&(address, words))?;
                    let pointer =
                        std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut(address))
                            .unwrap();
                    // SAFETY: the block is live, of this arena and of that size.
                    unsafe { metaspace.deallocate(*id, pointer, words) };
                }
            }
            Step::Purge => {
                metaspace.purge();
            }
            Step::Death(_) | Step::Allocate { .. } | Step::Deallocate { .. } => {}
        }
        prop_assert_eq!(metaspace.check(), Ok(()));
    }
    prop_assert_eq!(metaspace.check_deep(), Ok(()));
    agrees(metaspace, &shadow)?;
    for (id, blocks) in shadow.arenas {
        blocks.iter().try_for_each(intact)?;
        metaspace.death(id);
    }
    prop_assert_eq!(metaspace.check_deep(), Ok(()));
    let statistics = metaspace.statistics();
    prop_assert_eq!(statistics.used_bytes(), 0);
    let free = statistics.free_chunk_bytes()
        + statistics.non_class.uncut_bytes
        + statistics.class.uncut_bytes;
    prop_assert_eq!(free, statistics.committed_bytes());
    Ok(())
}

/// No two live blocks overlap, and used bytes are at least theirs and free blocks'.
fn agrees(metaspace: &Metaspace11, shadow: &Shadow) -> Result<(), TestCaseError> {
    let mut all: Vec<Block> =
        shadow.arenas.iter().flat_map(|(_, blocks)| blocks.iter().copied()).collect();
    all.sort_unstable();
    prop_assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1.max(3) * WORD <= pair[1].0));
    let live: usize = all.iter().map(|(_, words)| words.max(&3) * WORD).sum();
    let statistics = metaspace.statistics();
    let blocks = statistics.non_class.free_block_bytes + statistics.class.free_block_bytes;
    prop_assert!(statistics.used_bytes() >= live as u64 + blocks);
    Ok(())
}

fn intact((address, words): &Block) -> Result<(), TestCaseError> {
    for index in 0..*words {
        // SAFETY: the shadow knows the block as live, with that many words, all of them written.
        let found =
            unsafe { std::ptr::with_exposed_provenance::<usize>(*address).add(index).read() };
        prop_assert_eq!(found, address ^ index, "word {} of {} at {:#x}", index, words, address);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_program_finds_its_blocks_intact(steps in steps(), offset in 0usize..16) {
        let node_offsets_bytes = vec![offset * 4096; 3];
        run(&mut Metaspace11::new(Options11 { node_offsets_bytes, ..Options11::default() }), &steps)?;
    }

    #[test]
    fn any_commit_or_reservation_may_fail(steps in steps(), call in any::<bool>(), nth in 0u64..12, length in 1u64..4) {
        let faults = Arc::new(Faults::new());
        faults.fail(if call { Call::Commit } else { Call::Reserve }, nth, length);
        run(&mut Metaspace11::new(Options11 { faults: Some(faults), ..Options11::default() }), &steps)?;
    }

    #[test]
    fn any_list_of_a_heap_conforms(list in operations(150)) {
        prop_assert_eq!(drive(Heap11::new(Options11::default(), plan()), &list).map(|_| ()), Ok(()));
    }
}

#[test]
fn first_chunks_are_those_of_the_loader_kind() {
    let mut metaspace = fresh();
    let mut first = |space, loader| {
        let id = metaspace.birth(space, loader);
        metaspace.newest_chunk(id).unwrap().words * WORD / 1024
    };
    use LoaderKind::{Boot, Hidden, Reflection, Standard};
    assert_eq!(
        [Boot, Standard, Hidden, Reflection].map(|loader| first(Space::NonClass, loader)),
        [4096, 4, 1, 1]
    );
    assert_eq!(
        [Boot, Standard, Hidden, Reflection].map(|loader| first(Space::Class, loader)),
        [384, 2, 1, 1]
    );
}

/// Chunk sizes in KB that an arena gets for `count` requests of `words`.
fn chunk_sizes(space: Space, loader: LoaderKind, words: usize, count: usize) -> Vec<usize> {
    let mut metaspace = fresh();
    let id = metaspace.birth(space, loader);
    let mut sizes = vec![metaspace.newest_chunk(id).unwrap()];
    for _ in 0..count {
        metaspace.allocate(id, words).unwrap();
        let newest = metaspace.newest_chunk(id).unwrap();
        if sizes.last() != Some(&newest) {
            sizes.push(newest);
        }
    }
    sizes.into_iter().map(|place| place.words * WORD / 1024).collect()
}

#[test]
fn four_small_chunks_then_medium_and_four_specialized_for_micro_loaders() {
    assert_eq!(chunk_sizes(Space::NonClass, LoaderKind::Standard, 100, 30), [4, 4, 4, 4, 64]);
    assert_eq!(chunk_sizes(Space::Class, LoaderKind::Standard, 100, 30), [2, 2, 2, 2, 32]);
    expect("arena: another specialized chunk", || {
        assert_eq!(
            chunk_sizes(Space::NonClass, LoaderKind::Reflection, 100, 40),
            [1, 1, 1, 1, 4, 4, 4, 4, 64]
        );
    });
    // In class space a micro loader goes on with small chunks at once.
    assert_eq!(chunk_sizes(Space::Class, LoaderKind::Hidden, 100, 6), [1, 2, 2, 2]);
    // A request that does not fit a small chunk gets a medium one; from then on the arena gets
    // medium chunks.
    assert_eq!(chunk_sizes(Space::NonClass, LoaderKind::Standard, SMALL_WORDS - 7, 1), [4, 64]);
}

#[test]
fn humongous_chunks_are_rounded_to_a_kilobyte_and_do_not_retire_the_current_one() {
    let mut metaspace = fresh();
    let id = metaspace.birth(Space::NonClass, LoaderKind::Standard);
    let first = metaspace.allocate(id, 10).unwrap();
    expect("arena: humongous chunk beside the current one", || {
        metaspace.allocate(id, MEDIUM_WORDS).unwrap()
    });
    assert_eq!(metaspace.newest_chunk(id).unwrap().words, MEDIUM_WORDS + SPECIALIZED_WORDS);
    assert_eq!(metaspace.allocate(id, 10).unwrap().as_ptr() as usize, first.as_ptr() as usize + 80);
    metaspace.death(id);
    // Free, it serves the next request that fits, however small.
    let id = metaspace.birth(Space::NonClass, LoaderKind::Standard);
    metaspace.allocate(id, 10).unwrap();
    expect("pool: humongous chunk reused", || metaspace.allocate(id, MEDIUM_WORDS).unwrap());
    metaspace.death(id);
    let id = metaspace.birth(Space::Class, LoaderKind::Standard);
    metaspace.allocate(id, 3 * MEDIUM_WORDS).unwrap();
    metaspace.death(id);
    let id = metaspace.birth(Space::Class, LoaderKind::Standard);
    expect("pool: humongous chunk larger than asked", || {
        metaspace.allocate(id, 2 * MEDIUM_WORDS).unwrap()
    });
    metaspace.check_deep().unwrap();
}

#[test]
fn returned_chunks_merge_to_medium_or_small_and_split_again() {
    let mut metaspace = fresh();
    let ids: Vec<ArenaId> =
        (0..64).map(|_| metaspace.birth(Space::NonClass, LoaderKind::Reflection)).collect();
    let free =
        |metaspace: &Metaspace11| metaspace.statistics().non_class.kinds.map(|row| row.free_chunks);
    expect("merge: to small", || ids[..4].iter().for_each(|id| metaspace.death(*id)));
    assert_eq!(free(&metaspace), [0, 1, 0, 0]);
    expect("merge: refused, a neighbour is in use", || metaspace.death(ids[4]));
    expect("merge: to medium", || ids[5..].iter().for_each(|id| metaspace.death(*id)));
    assert_eq!(free(&metaspace), [0, 0, 1, 0]);
    let one = expect("pool: split", || metaspace.birth(Space::NonClass, LoaderKind::Reflection));
    assert_eq!(metaspace.newest_chunk(one).unwrap().offset_bytes, 0);
    assert_eq!(free(&metaspace), [3, 15, 0, 0]);
    metaspace.check_deep().unwrap();
}

#[test]
fn an_aligned_chunk_leaves_padding_chunks_before_it() {
    let mut metaspace = fresh();
    metaspace.birth(Space::NonClass, LoaderKind::Reflection);
    let id =
        expect("grow: padding chunk", || metaspace.birth(Space::NonClass, LoaderKind::Standard));
    assert_eq!(metaspace.newest_chunk(id).unwrap().offset_bytes, 4096);
    assert_eq!(metaspace.statistics().non_class.kinds[0].free_chunks, 3);
    expect("merge: refused, area leaves the node", || metaspace.death(id));
    metaspace.check_deep().unwrap();
}

#[test]
fn a_humongous_chunk_in_the_way_prevents_a_merge() {
    let mut metaspace = fresh();
    let small = metaspace.birth(Space::NonClass, LoaderKind::Reflection);
    let large = metaspace.birth(Space::NonClass, LoaderKind::Reflection);
    metaspace.allocate(large, MEDIUM_WORDS + 1_000).unwrap();
    metaspace.birth(Space::NonClass, LoaderKind::Reflection);
    metaspace.death(large);
    expect("merge: refused, a humongous chunk straddles", || metaspace.death(small));
    metaspace.check_deep().unwrap();
}

#[test]
fn blocks_are_looked_at_only_beyond_4096_words() {
    let mut metaspace = fresh();
    let id = metaspace.birth(Space::NonClass, LoaderKind::Boot);
    let blocks: Vec<_> = (0..430).map(|_| metaspace.allocate(id, 10).unwrap()).collect();
    for block in &blocks[..409] {
        // SAFETY: live, of this arena, ten words.
        unsafe { metaspace.deallocate(id, *block, 10) };
    }
    assert!(metaspace.allocate(id, 10).unwrap() > blocks[429], "4090 words are not looked at");
    // SAFETY: as above.
    unsafe { metaspace.deallocate(id, blocks[409], 10) };
    assert_eq!(
        expect("blocks: exact small block", || metaspace.allocate(id, 10).unwrap()),
        blocks[409]
    );
    // SAFETY: the block just given.
    unsafe { metaspace.deallocate(id, blocks[409], 10) };
    assert!(
        metaspace.allocate(id, 9).unwrap() > blocks[429],
        "a small request does not look at larger blocks"
    );
    assert_eq!(metaspace.statistics().non_class.from_free_blocks, 1);
}

#[test]
fn a_block_four_times_too_large_is_put_back() {
    let mut metaspace = fresh();
    let id = metaspace.birth(Space::NonClass, LoaderKind::Boot);
    let block = metaspace.allocate(id, 5_000).unwrap();
    // SAFETY: live, of this arena, 5000 words.
    unsafe { metaspace.deallocate(id, block, 5_000) };
    assert!(
        expect("blocks: too large, put back", || metaspace.allocate(id, 1_249)).unwrap() > block
    );
    assert_eq!(expect("blocks: rest kept", || metaspace.allocate(id, 1_250)), Some(block));
    assert_eq!(metaspace.statistics().non_class.free_block_bytes, 3_750 * 8);
    metaspace.check_deep().unwrap();
}

#[test]
fn a_full_node_is_left_in_chunks_and_unmapped_once_empty_but_class_space_never_shrinks() {
    let mut metaspace = fresh();
    let fill = |metaspace: &mut Metaspace11, space| -> Vec<ArenaId> {
        (0..600)
            .map(|_| {
                let id = metaspace.birth(space, LoaderKind::Standard);
                metaspace.allocate(id, SMALL_WORDS - 7).unwrap();
                id
            })
            .collect()
    };
    let ids = expect("grow: node retired", || fill(&mut metaspace, Space::NonClass));
    let class_ids = fill(&mut metaspace, Space::Class);
    let before = metaspace.statistics();
    assert!(before.non_class.nodes > 10 && before.class.nodes == 1);
    ids.into_iter().chain(class_ids).for_each(|id| metaspace.death(id));
    assert_eq!(metaspace.committed_bytes(), before.committed_bytes(), "free chunks stay committed");
    expect("pool: node unmapped", || metaspace.purge());
    let after = metaspace.statistics();
    assert_eq!(
        (after.non_class.nodes, after.class.committed_bytes),
        (1, before.class.committed_bytes)
    );
    metaspace.check_deep().unwrap();
}

#[test]
fn commits_follow_the_bunch_of_four_medium_chunks() {
    let mut metaspace = fresh();
    let class = metaspace.birth(Space::Class, LoaderKind::Standard);
    assert_eq!(metaspace.committed_bytes(), 128 * KB);
    let id = metaspace.birth(Space::NonClass, LoaderKind::Standard);
    assert_eq!(metaspace.committed_bytes(), (128 + 256) * KB);
    // A humongous chunk larger than a bunch is committed to the page.
    metaspace.allocate(id, 64 << 10).unwrap();
    assert_eq!(metaspace.committed_bytes(), (128 + 256 + 516) * KB);
    assert_eq!(metaspace.statistics().non_class.reserved_bytes, (FIRST_NODE_WORDS * WORD) as u64);
    metaspace.allocate(class, 100).unwrap();
    metaspace.check_deep().unwrap();
}

#[test]
fn limits_refuse_and_leave_the_arena_as_it_was() {
    let options = Options11 {
        limit_bytes: Some(512 * KB),
        class_space_bytes: 16 << 20,
        ..Options11::default()
    };
    let mut metaspace = Metaspace11::new(options);
    let id = metaspace.birth(Space::NonClass, LoaderKind::Standard);
    let before = metaspace.statistics();
    assert_eq!(expect("grow: refused by the limit", || metaspace.allocate(id, 64 << 10)), None);
    assert_eq!(metaspace.statistics(), before);
    assert!(metaspace.allocate(id, 100).is_some());
    assert_eq!(metaspace.allocate(id, usize::MAX), None);
    let mut metaspace =
        Metaspace11::new(Options11 { class_space_bytes: 16 << 20, ..Options11::default() });
    let id = metaspace.birth(Space::Class, LoaderKind::Standard);
    assert_eq!(expect("grow: class space is full", || metaspace.allocate(id, 2 << 20)), None);
    assert!(metaspace.allocate(id, 1 << 20).is_some());
}

#[test]
fn a_commit_that_fails_leaves_the_node_for_another() {
    let faults = Arc::new(Faults::new());
    let mut metaspace =
        Metaspace11::new(Options11 { faults: Some(faults.clone()), ..Options11::default() });
    let id = metaspace.birth(Space::NonClass, LoaderKind::Standard);
    faults.fail(Call::Commit, 0, 1);
    // The first node cannot commit; as in HotSpot its rest becomes chunks, and the next node
    // serves.
    assert!(expect("node: commit failed", || metaspace.allocate(id, 64 << 10)).is_some());
    assert_eq!(metaspace.statistics().non_class.nodes, 2);
    faults.fail(Call::Commit, 0, u64::MAX);
    assert_eq!(metaspace.allocate(id, 64 << 10), None);
    metaspace.check_deep().unwrap();
}
