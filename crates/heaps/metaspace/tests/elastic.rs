//! The elastic metaspace as a heap: HotSpot's own list of tests, operation lists, and memory
//! refused at any call.

mod common;

use common::Replayed;
use heaplab_address_space::{Call, Faults};
use heaplab_buddy::{Level, marks};
use heaplab_heap::conformance::{self, Operation};
use heaplab_heap::{Block, Heap, Manual, Region, Request};
use heaplab_metaspace::elastic::{ArenaId, ElasticMetaspace};
use heaplab_metaspace::plan::{ArenaPlan, LoaderKind, Plan};
use heaplab_metaspace::spec::Spec;
use proptest::prelude::*;
use std::ptr::NonNull;
use std::sync::Arc;

const SPECS: [&str; 7] = [
    "jdk16",
    "jdk17",
    "jdk17,reclaim=aggressive",
    "jdk17,reclaim=none",
    "jdk18",
    "jdk18,reclaim=aggressive",
    "jdk18,reclaim=none",
];
const ROOT_WORDS: usize = 16 << 17;

fn spec(text: &str) -> Spec {
    Spec::parse(text).unwrap()
}

fn metaspace(text: &str) -> ElasticMetaspace {
    ElasticMetaspace::new(spec(text), Plan::default()).unwrap()
}

fn context(text: &str, commit: Option<usize>, reserve: Option<usize>) -> ElasticMetaspace {
    ElasticMetaspace::test_context(spec(text), commit, reserve).unwrap()
}

fn plan(loader: LoaderKind) -> ArenaPlan {
    ArenaPlan { class: false, loader }
}

/// The current chunk's level and the number of chunks.
fn shape(heap: &ElasticMetaspace, id: ArenaId) -> (Level, usize) {
    let arena = heap.arena(id).unwrap();
    (heap.spaces()[0].chunks().level(arena.current().unwrap()), arena.chunks())
}

#[test]
fn any_heap_s_lists_pass_on_every_generation_and_policy() {
    for text in SPECS {
        for seed in 0..3 {
            let driven =
                conformance::drive(metaspace(text), &conformance::pseudo_random(seed, 600))
                    .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(driven.births > 200 && driven.refused == 0, "{text}: {driven:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_list_passes(list in conformance::operations(150), at in 0..SPECS.len()) {
        conformance::drive(metaspace(SPECS[at]), &list).unwrap();
    }

    /// Class arenas too, under a limit: requests are refused, and nothing else changes.
    #[test]
    fn any_list_passes_under_a_limit(list in conformance::operations(150), class in any::<bool>()) {
        let arena = ArenaPlan { class, loader: LoaderKind::Standard };
        let plan = Plan::new(vec![arena; 4]);
        conformance::drive(ElasticMetaspace::new(spec("jdk17,limit=512k,class_space=16m"), plan).unwrap(), &list).unwrap();
    }
}

#[test]
fn a_chunk_doubles_in_place_as_long_as_the_next_one_would_be_as_large() {
    let mut heap = context("jdk17", None, None);
    let id = heap.birth(plan(LoaderKind::Standard));
    let mut fill = |words: usize| {
        for _ in 0..words / 64 {
            heap.allocate_words(id, 64).unwrap();
        }
        (shape(&heap, id), heap.counters().num_chunks_enlarged)
    };
    // 4 KB, then 8 in place; the next chunk size is 4 KB, so growth in place ends there.
    assert_eq!(marks::expect("enlarged in place", || fill(1024)), ((Level(11), 1), 1));
    assert_eq!(
        marks::expect("enlarging refused: the next chunk is to be smaller", || fill(64)).0.1,
        2
    );
    // From the fifth chunk on, 16 KB double to 32.
    fill(40 << 10);
    let levels = |heap: &ElasticMetaspace| {
        heap.arena(id)
            .unwrap()
            .each_chunk(&heap.spaces()[0])
            .map(|chunk| heap.spaces()[0].chunks().level(chunk))
            .min()
    };
    assert_eq!(levels(&heap), Some(Level(9)));
    heap.check_deep().unwrap();
}

#[test]
fn a_root_chunk_is_not_enlarged() {
    let mut heap = context("jdk17", None, None);
    let id = heap.birth(ArenaPlan::default());
    heap.allocate_words(id, ROOT_WORDS).unwrap();
    marks::expect("enlarging refused: a root chunk", || heap.allocate_words(id, 1).unwrap());
    assert_eq!(shape(&heap, id), (Level(12), 2));
}

#[test]
fn enlarging_is_refused_where_hotspot_refuses_it() {
    let refused = |mark: &str, loader, requests: &[usize], expected: (Level, usize)| {
        let mut heap = context("jdk17", None, None);
        let id = heap.birth(plan(loader));
        let (last, first) = requests.split_last().unwrap();
        for words in first {
            heap.allocate_words(id, *words).unwrap();
        }
        marks::expect(mark, || heap.allocate_words(id, *last).unwrap());
        assert_eq!(shape(&heap, id), expected, "{mark}");
    };
    // A standard arena's second chunk would again be of 4 KB: 4 KB may double to 8, not more.
    refused(
        "enlarging refused: more than twice as large",
        LoaderKind::Standard,
        &[500, 1500],
        (Level(10), 2),
    );
    // The used part and the request together exceed a root chunk.
    refused(
        "enlarging refused: above a root chunk",
        LoaderKind::Boot,
        &[400_000, ROOT_WORDS],
        (Level(0), 2),
    );
    // A micro arena's first chunk has 2 KB, its next one 1 KB.
    refused(
        "enlarging refused: the next chunk is to be smaller",
        LoaderKind::Reflection,
        &[200, 100],
        (Level(14), 2),
    );
}

#[test]
fn enlarging_is_refused_to_the_second_of_a_pair_and_beside_a_chunk_in_use() {
    let mut heap = context("jdk17", None, None);
    let (first, second) =
        (heap.birth(plan(LoaderKind::Standard)), heap.birth(plan(LoaderKind::Standard)));
    heap.allocate_words(first, 400).unwrap();
    heap.allocate_words(second, 400).unwrap();
    marks::expect("enlarging refused: the second of its pair", || {
        heap.allocate_words(second, 200).unwrap()
    });
    marks::expect("enlarging refused: the buddy is in use or split", || {
        heap.allocate_words(first, 200).unwrap()
    });
    heap.check_deep().unwrap();
}

#[test]
fn what_is_left_of_a_retired_chunk_is_salvaged_and_used_again() {
    let mut heap = context("jdk17", None, None);
    let (first, other) =
        (heap.birth(plan(LoaderKind::Standard)), heap.birth(plan(LoaderKind::Standard)));
    heap.allocate_words(first, 400).unwrap();
    heap.allocate_words(other, 400).unwrap();
    let used = heap.used_words();
    marks::expect("salvaged a retired chunk", || heap.allocate_words(first, 200).unwrap());
    assert_eq!(heap.used_words(), used + 200 + 112, "the 112 words left of 512 count as used");
    let again = heap.allocate_words(first, 112).unwrap();
    assert_eq!(heap.used_words(), used + 200 + 112, "and are handed out without counting again");
    // SAFETY: the block has 112 words and is live.
    unsafe { again.write_bytes(0xab, 112) };
    heap.check_deep().unwrap();
}

#[test]
fn a_deallocated_block_is_the_next_one() {
    for words in [1, 2, 33, 34, 500] {
        let mut heap = context("jdk17", None, None);
        let id = heap.birth(ArenaPlan::default());
        let block = heap.allocate_words(id, words).unwrap();
        let used = heap.used_words();
        // SAFETY: it was allocated with these words and is not used.
        unsafe { heap.deallocate_words(id, block, words) };
        assert_eq!(
            (heap.allocate_words(id, words), heap.used_words()),
            (Some(block), used),
            "{words} words"
        );
    }
}

#[test]
fn a_commit_limit_refuses_and_what_dies_makes_room() {
    let granule = 8192;
    let mut heap = context("jdk17", Some(2 * granule), None);
    let (first, second) = (heap.birth(ArenaPlan::default()), heap.birth(ArenaPlan::default()));
    assert!(heap.allocate_words(first, 2 * granule).is_some());
    marks::expect("a chunk goes back because it could not be committed", || {
        assert_eq!(heap.allocate_words(second, 1), None)
    });
    assert_eq!((heap.committed_words(), heap.counters().num_allocs_failed_limit), (2 * granule, 1));
    heap.check_deep().unwrap();
    // SAFETY: its block is not used.
    unsafe { heap.death(first) };
    assert!(heap.allocate_words(second, 1).is_some());
    // A chunk that cannot be committed further is retired once another is available.
    marks::expect("the current chunk could not be committed further", || {
        let boot = heap.birth(plan(LoaderKind::Boot));
        while heap.allocate_words(boot, 512).is_some() {}
    });
    heap.check_deep().unwrap();
}

#[test]
fn class_space_never_grows_and_its_first_chunk_is_nobody_s() {
    let mut heap = ElasticMetaspace::new(spec("jdk17,class_space=16m"), Plan::default()).unwrap();
    let id = heap.birth(ArenaPlan { class: true, loader: LoaderKind::Standard });
    let first = heap.allocate_words(id, 1).unwrap();
    assert_ne!(heap.spaces()[1].offset_of(first.as_ptr() as usize), Some(0));
    marks::expect(
        "a fixed space is used up",
        || while heap.allocate_words(id, 100_000).is_some() {},
    );
    assert_eq!(heap.spaces()[1].reserved_bytes(), 16 << 20);
    // SAFETY: its blocks are not used.
    unsafe { heap.death(id) };
    heap.check_deep().unwrap();
    assert_eq!(
        (heap.used_words(), heap.spaces()[1].committed_bytes()),
        (0, 64 << 10),
        "the guard's granule stays"
    );
}

#[test]
fn memory_goes_back_when_the_generation_says() {
    for (text, after_death, after_purge) in
        [("jdk17", 0, 0), ("jdk18", 10 << 17, 0), ("jdk17,reclaim=none", 16 << 17, 16 << 17)]
    {
        let mut heap = context(text, None, None);
        let id = heap.birth(ArenaPlan::default());
        heap.allocate_words(id, 10 << 17).unwrap();
        // SAFETY: its block is not used.
        unsafe { heap.death(id) };
        assert_eq!(heap.committed_words(), after_death, "{text}");
        heap.purge();
        assert_eq!(heap.committed_words(), after_purge, "{text}");
        heap.check_deep().unwrap();
    }
}

#[test]
fn a_request_beyond_a_root_chunk_is_refused() {
    let mut heap = metaspace("jdk17");
    let id = heap.birth(ArenaPlan::default());
    assert_eq!(heap.allocate_words(id, ROOT_WORDS + 1), None);
    assert_eq!(heap.allocate_words(id, usize::MAX), None);
    assert!(heap.allocate_words(id, ROOT_WORDS).is_some());
    assert!(heap.allocate(Request::of(usize::MAX - 100)).is_none());
    heap.check_deep().unwrap();
}

/// splitmix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

/// A block with its number in every word.
struct Marked {
    block: NonNull<u64>,
    words: usize,
    number: u64,
}

impl Marked {
    fn new(block: NonNull<u64>, words: usize, number: u64) -> Marked {
        for word in 0..words {
            // SAFETY: the block was just allocated with this many words.
            unsafe { block.add(word).write(number) };
        }
        Marked { block, words, number }
    }

    fn is_whole(&self) -> bool {
        // SAFETY: the block is live and `new` wrote every word.
        (0..self.words).all(|word| unsafe { self.block.add(word).read() } == self.number)
    }
}

/// HotSpot's `test_random_allocs`: arenas are born, used and die at random; every block keeps its
/// mark. 15 % of the steps give a block back. Returns the number of refused requests.
fn stress(
    mut heap: ElasticMetaspace,
    arenas: usize,
    steps: usize,
    largest_words: usize,
    seed: u64,
) -> usize {
    let mut random = Random(seed);
    let mut beds: Vec<Option<(ArenaId, Vec<Marked>)>> = (0..arenas).map(|_| None).collect();
    let mut refused = 0;
    for step in 0..steps {
        let at = random.below(arenas);
        let Some((id, blocks)) = &mut beds[at] else {
            let loader =
                if random.below(2) == 0 { LoaderKind::Standard } else { LoaderKind::Reflection };
            beds[at] =
                Some((heap.birth(ArenaPlan { class: random.below(2) == 0, loader }), Vec::new()));
            continue;
        };
        match random.below(100) {
            0..=14 if !blocks.is_empty() => {
                let marked = blocks.swap_remove(random.below(blocks.len()));
                assert!(marked.is_whole(), "step {step}");
                // SAFETY: the block is live and has left the list.
                unsafe { heap.deallocate_words(*id, marked.block, marked.words) };
            }
            99 if random.below(5) == 0 => {
                assert!(blocks.iter().all(Marked::is_whole), "step {step}");
                // SAFETY: its blocks go with it.
                unsafe { heap.death(*id) };
                beds[at] = None;
            }
            98 if random.below(10) == 0 => heap.purge(),
            _ => {
                let words = 1 + random.below(largest_words);
                match heap.allocate_words(*id, words) {
                    Some(block) => blocks.push(Marked::new(block, words, step as u64 + 1)),
                    None => refused += 1,
                }
            }
        }
        if step % 500 == 0 {
            heap.check_deep().unwrap();
        }
    }
    for (id, blocks) in beds.into_iter().flatten() {
        assert!(blocks.iter().all(Marked::is_whole));
        // SAFETY: its blocks go with it.
        unsafe { heap.death(id) };
    }
    heap.check_deep().unwrap();
    assert_eq!(heap.used_words(), 0);
    refused
}

#[test]
fn thirty_two_arenas_ten_thousand_steps() {
    for text in SPECS {
        assert_eq!(stress(metaspace(text), 32, 10_000, 100, 1), 0, "{text}");
    }
}

#[test]
fn thirty_two_arenas_under_a_limit_of_two_million_words() {
    assert!(stress(context("jdk17", Some(2 << 20), None), 32, 10_000, 2_048, 2) > 0);
}

#[test]
fn one_arena_ten_thousand_steps() {
    assert_eq!(stress(metaspace("jdk17"), 1, 10_000, 2_048, 3), 0);
}

#[test]
fn small_profiles() {
    for (seed, largest_words) in [(4, 512), (5, 32)] {
        assert_eq!(
            stress(metaspace("jdk17,reclaim=aggressive"), 32, 10_000, largest_words, seed),
            0
        );
    }
}

/// With the n-th commit refused, for every n: the list goes on, contents stay, counts add up, and
/// everything goes back.
#[test]
fn a_commit_refused_at_any_call_changes_nothing() {
    let mut list = conformance::pseudo_random(11, 400);
    list.retain(|operation| !matches!(operation, Operation::Trim));
    for text in ["jdk17,reclaim=aggressive", "jdk18", "jdk17,reclaim=none"] {
        let run = |nth: Option<u64>| {
            let faults = Arc::new(Faults::new());
            let heap =
                ElasticMetaspace::with_faults(spec(text), Plan::default(), Some(faults.clone()))
                    .unwrap();
            let before = faults.calls(Call::Commit);
            if let Some(nth) = nth {
                faults.fail(Call::Commit, nth, 1);
            }
            let driven = conformance::drive(heap, &list)
                .unwrap_or_else(|error| panic!("{text}, commit {nth:?}: {error}"));
            (faults.calls(Call::Commit) - before, driven)
        };
        let (commits, undisturbed) = run(None);
        assert!(commits >= 4 && undisturbed.refused == 0, "{text}: {commits} commits");
        let refused: Vec<u64> = (0..commits)
            .map(|nth| marks::expect("commit refused", || run(Some(nth)).1.refused))
            .collect();
        assert!(
            refused.iter().all(|refused| *refused <= 1),
            "one refused commit fails at most one request: {refused:?}"
        );
        assert!(refused.contains(&1), "{text}: {refused:?}");
    }
}

#[test]
fn an_uncommit_that_is_refused_leaves_the_memory_committed() {
    let faults = Arc::new(Faults::new());
    let mut heap =
        ElasticMetaspace::test_context_with_faults(spec("jdk17"), None, None, Some(faults.clone()))
            .unwrap();
    let id = heap.birth(ArenaPlan::default());
    heap.allocate_words(id, 100_000).unwrap();
    let committed = heap.committed_words();
    faults.fail(Call::Uncommit, 0, 1);
    // SAFETY: its block is not used.
    marks::expect("uncommit refused", || unsafe { heap.death(id) });
    assert_eq!(heap.committed_words(), committed);
    heap.check_deep().unwrap();
    heap.purge();
    assert_eq!(heap.committed_words(), 0, "a purge tries again");
    heap.check_deep().unwrap();
}

#[test]
fn a_node_that_cannot_be_reserved_refuses_the_request() {
    let faults = Arc::new(Faults::new());
    let mut heap =
        ElasticMetaspace::test_context_with_faults(spec("jdk17"), None, None, Some(faults.clone()))
            .unwrap();
    let id = heap.birth(ArenaPlan::default());
    faults.fail(Call::Reserve, 0, 1);
    assert_eq!(heap.allocate_words(id, 10), None);
    assert!(heap.allocate_words(id, 10).is_some());
    heap.check_deep().unwrap();
}

#[test]
fn regions_are_the_arenas_of_the_plan() {
    let plan = Plan::new(vec![
        ArenaPlan::default(),
        ArenaPlan::parse("class", "hidden"),
        ArenaPlan::parse("non-class", "standard"),
    ]);
    let mut heap = ElasticMetaspace::new(spec("jdk17"), plan).unwrap();
    let in_region =
        |region, size| Request { align: 8, region: Region(region), ..Request::of(size) };
    heap.begin_region(Region(1));
    let class = heap.allocate(in_region(1, 100)).unwrap();
    let data = heap.allocate(in_region(2, 100)).unwrap();
    assert!(
        heap.spaces()[1].offset_of(class.as_ptr() as usize).is_some()
            && heap.spaces()[0].offset_of(data.as_ptr() as usize).is_some()
    );
    // SAFETY: the blocks are live.
    unsafe {
        let usable = |block, region| heap.usable_size(Block::new(block, in_region(region, 100)));
        assert_eq!((usable(class, 1), usable(data, 2)), (Some(104), Some(104)));
        heap.end_region(Region(1));
        heap.end_region(Region(2));
    }
    assert_eq!((heap.used_words(), heap.footprint().used_bytes), (0, Some(0)));
    let kinds: Vec<String> = heap
        .report()
        .spaces
        .iter()
        .flat_map(|space| &space.kinds)
        .map(|kind| kind.loader.clone())
        .collect();
    assert!(kinds.is_empty(), "{kinds:?}");
}

#[test]
fn the_first_request_after_a_region_s_end_purges() {
    let mut heap = metaspace("jdk18");
    let request = |region| Request { align: 8, region: Region(region), ..Request::of(1 << 20) };
    heap.allocate(request(1)).unwrap();
    // SAFETY: its block is not used.
    unsafe { heap.end_region(Region(1)) };
    let dead = heap.committed_words();
    heap.allocate(Request { size: 8, ..request(2) }).unwrap();
    assert!(heap.committed_words() < dead && dead >= 1 << 17, "{dead}");
}

#[test]
fn a_trace_that_frees_a_block_of_a_dead_arena_does_no_harm() {
    let mut replayed = Replayed::new(context("jdk17", None, None));
    for event in common::parse("0 b 0 n 0\n0 a 0 10 -1\n0 k 0\n0 d 0 10 0\n0 a 0 5 -1\n0 k 0") {
        replayed.step(event, |_| Some(ArenaPlan::default()));
    }
    assert_eq!((replayed.blocks[1], replayed.heap.used_words()), (None, 0));
    replayed.heap.check_deep().unwrap();
}
