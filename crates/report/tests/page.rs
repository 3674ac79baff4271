//! The page against its sources: every total on it is the profile's.

mod sample;

use heaplab_report::page::{html, limits};

#[test]
fn totals_on_the_page_are_those_of_the_profile() {
    let sample = sample::full();
    let (page, profile) = (sample.page(), &sample.profile);
    let flame = page.flame.as_ref().unwrap();
    let measure = |title: &str| {
        flame.values[flame.measures.iter().position(|measure| measure.title == title).unwrap()][0]
    };
    assert_eq!(measure("Live at peak, bytes"), profile.peak.live.bytes);
    assert_eq!(measure("Live at peak, objects"), profile.peak.live.objects);
    assert_eq!(measure("Asked for, bytes"), profile.totals.requested_bytes);
    assert_eq!(measure("Asked for, requests"), profile.totals.requests);
    assert_eq!(measure("Live at the end, bytes"), profile.end.live.bytes);
    assert_eq!(page.sizes.whole.total_count, profile.totals.requests);
    assert_eq!(page.sizes.whole.total_bytes, profile.totals.requested_bytes);
    assert_eq!(page.sizes.peak.total_bytes, profile.peak.live.bytes);
    assert_eq!(
        page.sizes.buckets.iter().map(|bucket| bucket.bytes).sum::<u64>(),
        profile.totals.requested_bytes
    );
    assert_eq!(
        page.sizes.buckets.iter().map(|bucket| bucket.peak_count).sum::<u64>(),
        profile.peak.live.objects
    );
    assert_eq!(page.timeline.max_bytes.iter().max(), Some(&profile.peak.live.bytes));
    assert_eq!(page.timeline.live_bytes.last(), Some(&profile.end.live.bytes));
    assert_eq!(page.live_at_end.iter().map(|row| row.bytes).sum::<u64>(), profile.end.live.bytes);
    assert_eq!(page.lifetimes.iter().map(|row| row.objects).sum::<u64>(), profile.totals.frees);
    assert_eq!(page.threads.iter().map(|thread| thread.frees).sum::<u64>(), profile.totals.frees);
    assert_eq!(
        page.threads.iter().map(|thread| thread.requested_bytes).sum::<u64>(),
        profile.totals.requested_bytes
    );
    assert_eq!(page.recording.events, sample.events.len() as u64);
    assert_eq!(page.totals.peak_slop_bytes, Some(profile.peak.live.slop_bytes()));
}

#[test]
fn slop_by_class_adds_up_to_slop_by_allocator() {
    let page = sample::full().page();
    assert!(page.slop.iter().any(|slop| slop.classes_left_out > 0) && page.slop.len() > 3);
    for slop in page.slop {
        let whole = slop.classes.iter().map(|class| class.slop_bytes).sum::<u64>()
            + slop.left_out_slop_bytes;
        let peak = slop.classes.iter().map(|class| class.peak_slop_bytes).sum::<u64>()
            + slop.left_out_peak_slop_bytes;
        assert_eq!(
            whole,
            slop.whole.usable_bytes - slop.whole.requested_bytes,
            "{}",
            slop.allocator
        );
        assert_eq!(peak, slop.peak.usable_bytes - slop.peak.requested_bytes, "{}", slop.allocator);
    }
}

#[test]
fn every_index_on_the_page_lies_in_its_table() {
    let page = sample::full().page();
    let flame = page.flame.as_ref().unwrap();
    let stacks =
        page.findings.iter().flat_map(|finding| finding.stacks.iter().map(|share| &share.frames));
    let stacks = stacks
        .chain(page.live_at_end.iter().map(|row| &row.frames))
        .chain(page.uses_its_slop.iter().map(|row| &row.frames));
    assert!(stacks.flatten().all(|frame| (*frame as usize) < page.frames.len()));
    assert!(flame.frame.iter().all(|frame| *frame < page.frames.len() as i64));
    assert!(
        flame
            .values
            .iter()
            .all(|column| column.len() == flame.parent.len() && flame.frame.len() == column.len())
    );
    assert!(page.timeline.at.len() <= limits::TIMELINE_POINTS);
}

#[test]
fn hostile_names_stay_data() {
    let page = html(&sample::full().page());
    assert_eq!(page.matches("</script").count(), 2, "the data's end and the scripts' end");
    assert!(!page.contains("<img"));
}

#[test]
fn recordings_with_little_in_them_make_a_page_too() {
    for sample in [sample::bare(), sample::empty()] {
        let page = sample.page();
        assert_eq!(page.flame, None);
        assert!(html(&page).len() < 200_000);
    }
}

#[test]
fn a_recording_with_a_hundred_thousand_stacks_makes_a_page_of_two_megabytes() {
    let sample = sample::large(100_000);
    let page = sample.page();
    let size = html(&page).len();
    assert!(size < 2_000_000, "{size} bytes");
    assert_eq!(page.flame.as_ref().unwrap().values[0][0], sample.profile.peak.live.bytes);
    assert!(
        page.left_out.iter().any(|sentence| sentence.starts_with("Live at the end")),
        "{:?}",
        page.left_out
    );
}

#[test]
fn a_child_is_named_as_the_command_line_names_it_and_has_the_marks_of_all() {
    let page = sample::child().page();
    assert_eq!(page.recording.process, "process 11#2 (tool)");
    assert_eq!(
        page.processes.iter().map(|process| process.label.as_str()).collect::<Vec<_>>(),
        ["10", "11#1", "11#2"]
    );
    let marks: Vec<_> = page
        .timeline
        .marks
        .iter()
        .map(|mark| (mark.name.as_str(), mark.live_bytes, mark.process.as_str()))
        .collect();
    let expected = [
        ("before", None, ""),
        // Of an object born at the mark's own time nothing says that it came later.
        ("loaded", Some(51_000), "10 (sh)"),
        ("checked", Some(51_000), ""),
        ("squeezed", Some(51_000), ""),
        ("own", Some(81_000), "11#2 (tool)"),
        ("loaded#2", None, ""),
    ];
    assert_eq!(marks, expected);
    assert_eq!((page.timeline.begin, page.timeline.end), (2_000_000, 3_000_000));
}

#[test]
fn pages_of_a_heap_are_its_walk_and_its_collections_are_numbered() {
    let sample = sample::collected();
    let page = sample.page();
    let [heap] = &page.heap_pages[..] else { panic!("one heap ran the workload") };
    let collections = heap.collections.as_ref().expect("it collects");
    assert_eq!((collections.count, &collections.number[..]), (4, &[1, 2, 3, 4][..]));
    let names = &collections.categories.as_ref().expect("it told its free lists").names;
    assert_eq!(names[..], ["24 to 63 bytes", "64 to 2047 bytes", "2048 bytes and more"]);
    assert_eq!(heap.moments.len(), 2);
    let names = sample::collected_twice().page().heap_pages.into_iter().map(|heap| heap.heap);
    assert!(names.eq(["v8:many", "v8:legacy"]));
    for moment in &heap.moments {
        let [space] = &moment.spaces[..] else { panic!("one space: {moment:?}") };
        let bytes: u64 = space.pages.iter().map(|page| page.bytes).sum();
        assert_eq!(space.live_bytes + space.vacant_bytes, bytes);
    }
}
