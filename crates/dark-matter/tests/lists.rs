//! The lists, from rows written by hand.

use heaplab_dark_matter::{
    ANSWERED, ASKED, Blocks, DarkMatter, DarkMatterError, SortBy, find, find_at, render,
};
use heaplab_text::paint::Look;
use heaplab_trace::source::Slice;
use heaplab_trace::tables::{Frame, Mark, StackNode, Tables};
use heaplab_trace::{Event, Flags, Op, StackId};

/// Stacks 1 to 5 are one frame each, of functions `one` to `five`.
fn tables() -> Tables {
    let mark = |name: &str| Mark { name: name.into(), time_ns: 0, process: Some(0) };
    let names = ["one", "two", "three", "four", "five"];
    let frame = |name: &&str| Frame { function: Some((*name).into()), ..Frame::default() };
    let mut stacks = vec![StackNode::default()];
    stacks.extend((0..5).map(|frame| StackNode { parent: 0, frame }));
    Tables {
        stacks,
        frames: names.iter().map(frame).collect(),
        marks: vec![mark(ASKED), mark(ANSWERED), mark("loaded")],
        ..Tables::default()
    }
}

fn born(object: u64, size: u64, stack: StackId) -> Event {
    Event { op: Op::Alloc, object, size, usable: size + 8, stack, ..Event::default() }
}

fn reported(object: u64, stack: StackId) -> Event {
    Event { op: Op::Report, object, stack, ..Event::default() }
}

fn at_mark(object: u64) -> Event {
    Event { op: Op::Mark, object, time_ns: 7, ..Event::default() }
}

fn freed(object: u64) -> Event {
    Event { op: Op::Free, object, ..Event::default() }
}

fn found(events: &[Event]) -> Result<DarkMatter, DarkMatterError> {
    find(&tables(), || Ok(Slice(events)))
}

const QUESTION: u64 = 0;
const ANSWER: u64 = 1;

#[test]
fn blocks_are_unreported_reported_once_or_twice() {
    let of_nothing = Event { flags: Flags::FAILED, ..reported(0, 5) };
    let found = found(&[
        born(0, 100, 1),
        born(1, 200, 1),
        born(2, 300, 2),
        // An earlier question does not count any more.
        at_mark(QUESTION),
        reported(0, 4),
        at_mark(ANSWER),
        born(3, 50, 1),
        freed(2),
        born(4, 1000, 3),
        at_mark(QUESTION),
        born(5, 9999, 3),
        reported(3, 3),
        reported(4, 4),
        reported(5, 4),
        reported(3, 5),
        of_nothing,
        at_mark(ANSWER),
        // Later events do not count either.
        freed(4),
        at_mark(2),
        // Reporters that are gone name nothing.
        at_mark(QUESTION),
        at_mark(ANSWER),
    ])
    .unwrap();
    let blocks =
        |count, bytes| Blocks { count, usable_bytes: bytes + 8 * count, slop_bytes: 8 * count };
    assert_eq!((found.asked, found.time_ns, found.is_whole), (2, 7, true));
    assert_eq!(found.live, blocks(4, 1350));
    assert_eq!(found.unreported.blocks, blocks(2, 300));
    assert_eq!(found.unreported.groups.len(), 1, "one stack");
    assert_eq!(found.unreported.groups[0].allocated_at, ["one"]);
    assert_eq!(found.once.groups[0].reported_at, [["four"]]);
    assert_eq!(found.twice.blocks, blocks(1, 50));
    assert_eq!(found.twice.groups[0].reported_at, [["three"], ["five"]]);
    assert_eq!(found.of_nothing, [(1, vec!["five".to_owned()])]);
    assert_eq!(found.set_aside, 1, "a block that was made meanwhile");
}

#[test]
fn a_recording_that_ends_in_the_middle_says_so() {
    let found = found(&[born(0, 1, 1), at_mark(QUESTION), reported(0, 2)]).unwrap();
    assert!(!found.is_whole && found.once.blocks.count == 1);
}

#[test]
fn a_recording_without_reporters_is_an_error() {
    assert!(matches!(found(&[born(0, 1, 1)]), Err(DarkMatterError::NeverAsked)));
}

#[test]
fn where_reporters_name_no_block_each_is_unreported() {
    let found = found(&[
        born(0, 10, 1),
        at_mark(QUESTION),
        at_mark(ANSWER),
        born(1, 20, 1),
        at_mark(QUESTION),
        at_mark(ANSWER),
    ])
    .unwrap();
    assert_eq!((found.asked, found.unreported.blocks.count, found.live.count), (0, 2, 2));
    let text =
        render(&found, "app", &Look { width: 200, listing_width: 200, colour: false, top: 9 });
    assert!(text.contains("no reporter named a block, so each counts as unreported"), "{text}");
}

#[test]
fn a_difference_has_what_changed() {
    let answer = [at_mark(QUESTION), reported(0, 4), at_mark(ANSWER)];
    let before = [born(0, 10, 1), born(1, 100, 2), born(2, 7, 3), born(3, 7, 5)];
    let after = [born(0, 10, 1), born(1, 10, 2), born(2, 7, 3), born(3, 20, 3)];
    let lists = |births: &[Event]| found(&[births, &answer].concat()).unwrap();
    let found = lists(&after).since(lists(&before), "before.heaplab");
    assert_eq!(found.since.as_deref(), Some("before.heaplab"));
    let live = Blocks { count: 0, usable_bytes: -77, slop_bytes: 0 };
    assert_eq!((found.live, found.unreported.blocks), (live, live));
    assert!(found.once.groups.is_empty(), "the same block is no change");
    let changes = found
        .unreported
        .groups
        .iter()
        .map(|group| (&*group.allocated_at[0], group.blocks.count, group.blocks.usable_bytes));
    let expected = [("two", 0, -90), ("three", 1, 28), ("five", -1, -15)];
    assert_eq!(changes.collect::<Vec<_>>(), expected);
    let text = render(&found, "app", &Look { width: 80, listing_width: 80, colour: false, top: 9 });
    for line in [
        "Changes since before.heaplab: -77 bytes in 0 blocks live.",
        "  2. +28 bytes in +1 block, slop +8 bytes",
        "  3. -15 bytes in -1 block, slop -8 bytes",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn groups_are_sorted_as_asked() {
    let slack = |object, size, usable, stack| Event { usable, ..born(object, size, stack) };
    let events = [
        slack(0, 100, 110, 1),
        slack(1, 10, 90, 2),
        slack(2, 105, 106, 3),
        born(3, 1, 4),
        born(4, 1, 4),
        at_mark(QUESTION),
        reported(9, 5),
    ];
    let found = found(&events).unwrap();
    let first = |by| found.clone().sorted_by(by).unreported.groups[0].allocated_at[0].clone();
    let order = [SortBy::Usable, SortBy::Requested, SortBy::Slop, SortBy::Blocks].map(first);
    assert_eq!(order, ["one", "three", "two", "four"]);
}

#[test]
fn a_mark_chooses_the_question_after_it() {
    const LOADED: u64 = 2;
    let events = [
        born(0, 100, 1),
        at_mark(QUESTION),
        reported(0, 3),
        at_mark(ANSWER),
        born(1, 200, 1),
        at_mark(LOADED),
        at_mark(QUESTION),
        reported(1, 4),
        at_mark(ANSWER),
        freed(1),
        at_mark(QUESTION),
        reported(0, 3),
        at_mark(ANSWER),
    ];
    let at = |mark| find_at(&tables(), || Ok(Slice(&events)), mark);
    let loaded = at("loaded").unwrap();
    assert_eq!((loaded.asked, loaded.mark.as_deref()), (3, Some("loaded")));
    assert_eq!(loaded.live.count, 2);
    assert_eq!(loaded.unreported.blocks.usable_bytes, 108);
    assert_eq!(found(&events).unwrap().live.count, 1);
    let said = at("begun").unwrap_err().to_string();
    assert_eq!(said, "\"begun\" is no mark of this recording; there are: loaded");
    let early = find_at(&tables(), || Ok(Slice(&events[..6])), "loaded");
    assert!(matches!(early, Err(DarkMatterError::NeverAsked)));
}

#[test]
fn stacks_agree_in_so_many_frames_behind_the_allocation_functions() {
    let names = ["main", "left", "right", "load", "operator new(unsigned long)", "xmalloc"];
    let frame = |name: &&str| Frame { function: Some((*name).into()), ..Frame::default() };
    let node = |parent, frame| StackNode { parent, frame };
    // 5: xmalloc, load, left, main; 7: operator new, load, right, main.
    let stacks = vec![
        StackNode::default(),
        node(0, 0),
        node(1, 1),
        node(1, 2),
        node(2, 3),
        node(4, 5),
        node(3, 3),
        node(6, 4),
    ];
    let all = Tables { stacks, frames: names.iter().map(frame).collect(), ..tables() };
    let events = [born(0, 10, 5), born(1, 20, 7), born(2, 5, 1), at_mark(QUESTION), reported(2, 1)];
    let found = find(&all, || Ok(Slice(&events))).unwrap();
    let groups = |found: &DarkMatter| -> Vec<(i64, Vec<String>)> {
        let groups = found.unreported.groups.iter();
        groups.map(|group| (group.blocks.count, group.allocated_at.clone())).collect()
    };
    let stack = |names: &[&str]| names.iter().map(|name| String::from(*name)).collect::<Vec<_>>();
    let whole = [(1, stack(&["load", "right", "main"])), (1, stack(&["load", "left", "main"]))];
    assert_eq!(groups(&found), whole);
    assert_eq!(groups(&found.clone().with_frames(3)), whole);
    let matched = found.clone().with_frames(1);
    assert_eq!(groups(&matched), [(2, stack(&["load"]))]);
    assert_eq!(matched.unreported.blocks, found.unreported.blocks);
}
