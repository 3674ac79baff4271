//! Reporters in one process share a registry: each test looks only at its own paths.

use heaplab_reporter::{
    Collected, Kind, Measure, SizeOf, Units, collect, mark, on_pressure, register, relieve,
};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Collections see each other's reporters, so they run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn amounts(collected: &Collected, path: &str) -> Vec<i64> {
    let reports = collected.reports.iter().filter(|report| report.path == path);
    reports.map(|report| report.amount).collect()
}

#[test]
fn a_reporter_that_panics_is_an_error_and_the_others_report() {
    let _alone = ONE_AT_A_TIME.lock();
    let _bad = register(|sink| {
        sink.bytes("explicit/before", Kind::Heap, 1, "Before.");
        panic!("no such cache");
    });
    let _good = register(|sink| sink.bytes("explicit/after", Kind::Heap, 2, "After."));
    for _ in 0..2 {
        let collected = collect();
        assert_eq!(amounts(&collected, "explicit/before"), [1]);
        assert_eq!(amounts(&collected, "explicit/after"), [2]);
        assert_eq!(collected.errors, ["a reporter panicked: no such cache"]);
    }
}

#[test]
fn what_about_memory_would_refuse_is_an_error_and_not_lost() {
    let _alone = ONE_AT_A_TIME.lock();
    let _handle = register(|sink| {
        sink.report("explicit/pages", Kind::Heap, Units::Count, 3, "Pages.");
        sink.bytes("explicit/map", Kind::Other, 4, "A map.");
        sink.bytes("", Kind::Heap, 5, "Nothing.");
        sink.bytes("heap-allocated", Kind::Other, 1, "A lie.");
        sink.bytes(&"x".repeat(20_000), Kind::Heap, 6, "Too long.");
    });
    let collected = collect();
    assert_eq!(collected.errors.len(), 5, "{:?}", collected.errors);
    assert_eq!(amounts(&collected, "heap-allocated").len(), 1);
    assert!(collected.errors[0].contains("\"explicit/pages\" of 3"), "{:?}", collected.errors);
    assert!(!collected.reports.iter().any(|report| report.path.starts_with("explicit/pages")));
}

#[test]
fn a_dropped_handle_is_asked_no_more_even_from_within() {
    let _alone = ONE_AT_A_TIME.lock();
    let handle = register(|sink| sink.bytes("explicit/dropped", Kind::Heap, 1, "Once."));
    assert_eq!(amounts(&collect(), "explicit/dropped"), [1]);
    drop(handle);
    assert!(amounts(&collect(), "explicit/dropped").is_empty());

    // A reporter that unregisters itself and registers another one; the registry holds no lock
    // meanwhile.
    static OWN: Mutex<Option<heaplab_reporter::Handle>> = Mutex::new(None);
    let handle = register(|sink| {
        sink.bytes("explicit/own", Kind::Heap, 1, "Once.");
        drop(OWN.lock().unwrap().take());
        register(|sink| sink.bytes("explicit/next", Kind::Heap, 1, "Later.")).forever();
    });
    *OWN.lock().unwrap() = Some(handle);
    assert_eq!(amounts(&collect(), "explicit/own"), [1]);
    let later = collect();
    assert!(amounts(&later, "explicit/own").is_empty());
    assert_eq!(amounts(&later, "explicit/next"), [1]);
}

#[test]
fn marks_keep_what_was_said_and_the_oldest_leaves() {
    let _alone = ONE_AT_A_TIME.lock();
    let _reporter = register(|sink| sink.bytes("explicit/marked", Kind::Heap, 5, "Once a mark."));
    let kept = || amounts(&collect(), "explicit/heaplab/marks").first().copied().unwrap_or(0);
    let before = kept();
    for number in 0..16 {
        mark(&format!("phase {number}"));
    }
    let sixteen = kept();
    assert!(sixteen > before + 16 * "explicit/marked".len() as i64, "{before} {sixteen}");
    // A name that is set again, and a 17th one, both in place of an older one.
    mark("phase 15");
    mark("phase 99");
    assert!((kept() - sixteen).abs() < sixteen / 8, "{sixteen} {}", kept());
}

#[test]
fn a_handle_waits_for_its_reporter() {
    let _alone = ONE_AT_A_TIME.lock();
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    let handle = register(|_| {
        INSIDE.store(1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(100));
        INSIDE.store(2, Ordering::SeqCst);
    });
    let asker = std::thread::spawn(collect);
    while INSIDE.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    drop(handle);
    assert_eq!(INSIDE.load(Ordering::SeqCst), 2);
    asker.join().unwrap();
}

#[test]
fn pressure_runs_every_callback() {
    let _alone = ONE_AT_A_TIME.lock();
    static RUN: AtomicUsize = AtomicUsize::new(0);
    let _first = on_pressure(|| panic!("locked"));
    let second = on_pressure(|| _ = RUN.fetch_add(1, Ordering::SeqCst));
    assert_eq!(relieve(), (2, vec!["a pressure callback panicked: locked".to_owned()]));
    drop(second);
    assert_eq!(relieve().0, 1);
    assert_eq!(RUN.load(Ordering::SeqCst), 1);
}

/// The usable size of malloc's block for a request.
fn usable(bytes: usize) -> usize {
    // SAFETY: the block is malloc's, and freed once.
    unsafe {
        let block = libc::malloc(bytes);
        let usable = libc::malloc_usable_size(block);
        libc::free(block);
        usable
    }
}

#[test]
fn blocks_are_measured_by_usable_size() {
    let measure = &mut Measure::new();
    assert_eq!(Vec::<u8>::new().heap_bytes(measure), 0);
    assert_eq!(vec![0_u8; 1025].heap_bytes(measure), usable(1025));
    assert_eq!(Box::new(7_u64).heap_bytes(measure), usable(8));
    assert_eq!(String::with_capacity(100).heap_bytes(measure), usable(100));
    let nested = vec![vec![1_u8; 50], Vec::new(), vec![2; 5000]];
    assert_eq!(nested.heap_bytes(measure), usable(72) + usable(50) + usable(5000));
    let text: Option<Box<str>> = Some("x".repeat(33).into());
    assert_eq!(text.heap_bytes(measure), usable(33));
    // SAFETY: null is allowed.
    assert_eq!(unsafe { measure.block(std::ptr::null()) }, 0);
}

#[test]
fn a_shared_value_counts_once() {
    let shared = Rc::new(vec![0_u8; 4096]);
    let owners = vec![Rc::clone(&shared), Rc::clone(&shared), shared];
    // Two counts and the vector's three words.
    let expected = usable(3 * 8) + 40 + usable(4096);
    assert_eq!(owners.heap_bytes(&mut Measure::new()), expected);
}
