//! The driver on real heaps: its calls are the program's, on one thread and on many, and no program
//! makes it do the impossible.

use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Request, Verified, Violation};
use heaplab_replay::{CellKind, CellReport, CellRequest, Driver, ReplayError, Touch, cell};
use heaplab_system::{System, glibc::Glibc, jemalloc::Jemalloc, mimalloc::Mimalloc, null::Null};
use heaplab_trace::program::{Facts, Program, compile};
use heaplab_trace::source::Slice;
use heaplab_trace::tables::{Mark, Tables};
use heaplab_trace::{Event, Flags, Op};
use std::io::Cursor;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

fn program(events: &[Event]) -> Program {
    let tables = Tables {
        marks: vec![Mark { name: "loaded".into(), ..Mark::default() }],
        ..Tables::default()
    };
    let mut out = Cursor::new(Vec::new());
    compile(&mut Slice(events), &tables, Facts::default(), 0, Path::new("test"), &mut out).unwrap();
    Program::from_bytes(&out.into_inner(), Path::new("test")).unwrap()
}

fn request(kind: CellKind) -> CellRequest {
    let (heap, program) = (String::from("test"), "test".into());
    CellRequest {
        heap,
        kind,
        program,
        touch: Touch::Known,
        threads: false,
        passes: 2,
        core: None,
        huge_pages: true,
    }
}

/// A workload of `length` events over `threads` threads; any thread frees and grows blocks of any
/// other.
fn workload(length: usize, threads: u32) -> Vec<Event> {
    let mut state = 5_u64;
    let mut next = move |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let (mut events, mut live, mut births) = (Vec::new(), Vec::new(), 0);
    for row in 0..length {
        let thread = next(threads.into()) as u32;
        let size = if next(20) == 0 { next(100_000) } else { next(400) };
        let base = Event { thread, size, ..Event::default() };
        if row == length / 2 {
            events.push(Event { op: Op::Mark, ..Event::default() });
        }
        match next(10) {
            0..=4 => {
                let flags = if next(4) == 0 { Flags::ZEROED } else { Flags::default() };
                let align_log2 = if next(10) == 0 { next(10) as u8 } else { 0 };
                live.push(births);
                events.push(Event { op: Op::Alloc, object: births, flags, align_log2, ..base });
                births += 1;
            }
            5..=8 if !live.is_empty() => {
                let object = live.swap_remove(next(live.len() as u64) as usize);
                events.push(Event { op: Op::Free, object, size: 0, ..base });
            }
            _ if !live.is_empty() => {
                events.push(Event {
                    op: Op::Realloc,
                    object: live[next(live.len() as u64) as usize],
                    ..base
                });
            }
            _ => {}
        }
    }
    events
}

/// Counts calls, and refuses after `limit` allocations.
struct Counting<H> {
    heap: H,
    allocated: u64,
    freed: u64,
    reallocated: u64,
    limit: u64,
}

impl<H: Manual> Counting<H> {
    fn new(heap: H, limit: u64) -> Self {
        Counting { heap, allocated: 0, freed: 0, reallocated: 0, limit }
    }
}

impl<H: Manual> Manual for Counting<H> {
    const SIZED: bool = H::SIZED;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        if self.allocated == self.limit {
            return None;
        }
        self.allocated += 1;
        self.heap.allocate(request)
    }

    unsafe fn deallocate(&mut self, block: Block) {
        self.freed += 1;
        // SAFETY: the caller's promise.
        unsafe { self.heap.deallocate(block) };
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        self.reallocated += 1;
        // SAFETY: the caller's promise.
        unsafe { self.heap.reallocate(block, new_size) }
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe { self.heap.usable_size(block) }
    }
}

impl<H: Manual> Heap for Counting<H> {
    fn version(&self) -> String {
        self.heap.version()
    }

    fn footprint(&self) -> Footprint {
        self.heap.footprint()
    }

    fn check(&self) -> Result<(), CheckError> {
        self.heap.check()
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.heap.check_deep()
    }
}

#[test]
fn the_heap_is_called_as_often_as_the_program_says() {
    let events = workload(5_000, 1);
    let count = |op| events.iter().filter(|event| event.op == op).count() as u64;
    let program = program(&events);
    let mut driver = Driver::new(&program, Counting::new(System(Glibc), u64::MAX)).unwrap();
    driver.run(Touch::All).unwrap();
    let heap = driver.heap();
    assert_eq!(
        (heap.allocated, heap.freed, heap.reallocated),
        (count(Op::Alloc), count(Op::Free), count(Op::Realloc))
    );
    driver.rewind();
    let heap = driver.heap();
    assert_eq!(heap.allocated, heap.freed);
}

#[test]
fn every_allocator_keeps_its_promises_on_a_real_shape() {
    let program = program(&workload(20_000, 1));
    let verify = request(CellKind::Verify);
    let reports = [
        cell::run(System(Glibc), &program, &verify),
        cell::run(System(Jemalloc), &program, &verify),
        cell::run(System(Mimalloc), &program, &verify),
    ];
    for report in reports {
        assert!(matches!(report, CellReport::Verified { .. }), "{report:?}");
    }
}

#[test]
fn the_null_heap_fails_verification() {
    let program = program(&workload(100, 1));
    let heap = Null::new(program.facts().block_size_max).unwrap();
    let CellReport::Failed { reason } = cell::run(heap, &program, &request(CellKind::Verify))
    else {
        panic!("one block for everything is not a heap");
    };
    assert!(reason.contains("overlaps"), "{reason}");
}

#[test]
fn a_heap_that_gives_nothing_is_named_with_the_request() {
    let program = program(&workload(5_000, 1));
    let heap = Counting::new(System(Glibc), 10);
    let CellReport::Failed { reason } = cell::run(heap, &program, &request(CellKind::Time)) else {
        panic!("the eleventh allocation fails");
    };
    assert!(reason.starts_with("the heap returned NULL for"), "{reason}");
}

/// Whether this process runs `test` alone. Resident memory belongs to a process, and this binary's
/// other tests allocate at the same time. If not alone, runs a process for `test`; the test fails
/// if that process fails.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "HEAPLAB_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// A heap's own memory beside a few blocks; a huge page if the system gives those unasked.
const KEPT_BYTES: u64 = 3 << 20;

#[test]
fn space_follows_what_is_held() {
    if !is_alone("space_follows_what_is_held") {
        return;
    }
    let size = 1 << 20;
    let mut events: Vec<Event> =
        (0..32).map(|object| Event { object, size, ..Event::default() }).collect();
    events.extend((0..32).map(|object| Event { op: Op::Free, object, ..Event::default() }));
    let program = program(&events);
    let CellReport::Space(report) = cell::run(System(Glibc), &program, &request(CellKind::Space))
    else {
        panic!("no report");
    };
    assert_eq!(report.samples.len(), program.checkpoints().len());
    for (checkpoint, sample) in program.checkpoints().iter().zip(&report.samples) {
        // glibc's pages were in use a little before; freed blocks may stay.
        let grown = sample.anonymous_bytes - report.baseline_bytes;
        assert!(grown + (128 << 10) >= checkpoint.requested_bytes, "{checkpoint:?} {sample:?}");
        assert!(grown <= 32 * size + KEPT_BYTES, "{checkpoint:?} {sample:?}");
    }
    assert!(report.trimmed_bytes.is_some());
}

#[test]
fn zeroed_blocks_stay_untouched_under_the_known_policy() {
    if !is_alone("zeroed_blocks_stay_untouched_under_the_known_policy") {
        return;
    }
    let size = 64 << 20;
    let events = [Event { size, flags: Flags::ZEROED, ..Event::default() }];
    let program = program(&events);
    let grown = |touch| {
        let asked = CellRequest { touch, ..request(CellKind::Space) };
        let CellReport::Space(report) = cell::run(System(Glibc), &program, &asked) else {
            panic!("no report")
        };
        report.samples[0].anonymous_bytes - report.baseline_bytes
    };
    let (known, all) = (grown(Touch::Known), grown(Touch::All));
    assert!(known < KEPT_BYTES, "{known} bytes became resident");
    assert!((size..size + KEPT_BYTES).contains(&all), "{all} bytes became resident");
}

/// A verified heap that threads share; keeps its violations, and the maximum of threads.
struct SharedVerified(Arc<Mutex<Verified<System<Jemalloc>>>>, Arc<AtomicUsize>);

impl SharedVerified {
    fn new() -> Self {
        SharedVerified(
            Arc::new(Mutex::new(Verified::new(System(Jemalloc)))),
            Arc::new(AtomicUsize::new(0)),
        )
    }

    fn lock(&self) -> MutexGuard<'_, Verified<System<Jemalloc>>> {
        self.0.lock().unwrap()
    }
}

impl Clone for SharedVerified {
    fn clone(&self) -> Self {
        let cloned = SharedVerified(self.0.clone(), self.1.clone());
        self.1.fetch_max(Arc::strong_count(&cloned.0), Ordering::Relaxed);
        cloned
    }
}

impl Manual for SharedVerified {
    const SIZED: bool = false;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        self.lock().allocate(request)
    }

    unsafe fn deallocate(&mut self, block: Block) {
        // SAFETY: the caller's promise.
        unsafe { self.lock().deallocate(block) };
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller's promise.
        unsafe { self.lock().reallocate(block, new_size) }
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe { self.lock().usable_size(block) }
    }
}

impl Heap for SharedVerified {
    fn version(&self) -> String {
        self.lock().version()
    }

    fn footprint(&self) -> Footprint {
        self.lock().footprint()
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        Ok(())
    }
}

#[test]
fn threads_free_each_others_blocks_in_order() {
    for threads in [2, 3, 8] {
        let program = program(&workload(20_000, threads));
        assert_eq!(program.facts().threads, threads);
        let heap = SharedVerified::new();
        let asked = CellRequest { threads: true, touch: Touch::None, ..request(CellKind::Time) };
        let report = cell::run_shared(heap.clone(), &program, &asked);
        let CellReport::Time(time) = report else { panic!("{report:?}") };
        assert_eq!(time.passes_ns.len(), 2);
        let finished: Result<(), Violation> = heap.lock().finish();
        finished.unwrap();
    }
}

/// `total` threads, `at_once` at a time. Each allocates two blocks and frees the previous thread's
/// second block; its own first block's free ends it.
fn short_threads(total: u64, at_once: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let event = |op, thread, object| Event {
        op,
        thread: thread as u32,
        object,
        size: 40,
        ..Event::default()
    };
    for thread in 0..total {
        events.extend([
            event(Op::Alloc, thread, 2 * thread),
            event(Op::Alloc, thread, 2 * thread + 1),
        ]);
        if thread > 0 {
            events.push(event(Op::Free, thread, 2 * thread - 1));
        }
        if let Some(last) = thread.checked_sub(at_once - 1) {
            events.push(event(Op::Free, last, 2 * last));
        }
    }
    events.extend((total + 1 - at_once..total).map(|last| event(Op::Free, last, 2 * last)));
    events
}

#[test]
fn thousands_of_short_threads_come_and_go_as_recorded() {
    const AT_ONCE: u64 = 4;
    let few = program(&short_threads(3_000, AT_ONCE));
    for kind in [CellKind::Time, CellKind::Space] {
        let heap = SharedVerified::new();
        let asked = CellRequest { threads: true, touch: Touch::None, passes: 1, ..request(kind) };
        let report = cell::run_shared(heap.clone(), &few, &asked);
        assert!(matches!(report, CellReport::Time(_) | CellReport::Space(_)), "{report:?}");
        let finished: Result<(), Violation> = heap.lock().finish();
        finished.unwrap();
        // This test uses one thread, the cell another.
        let at_once = heap.1.load(Ordering::Relaxed) - 2;
        assert!((1..=AT_ONCE as usize).contains(&at_once), "{at_once} threads at once");
    }
    let crowd = program(&short_threads(2_100, 2_100));
    let asked = CellRequest { threads: true, ..request(CellKind::Time) };
    let report = cell::run_shared(System(Mimalloc), &crowd, &asked);
    let CellReport::Failed { reason } = report else { panic!("{report:?}") };
    assert!(reason.starts_with("2100 threads exist at once"), "{reason}");
}

#[test]
fn a_thread_that_panics_ends_the_cell() {
    let heap = SharedVerified::new();
    let poison = heap.clone();
    assert!(
        std::thread::spawn(move || {
            let _held = poison.lock();
            panic!("on purpose")
        })
        .join()
        .is_err()
    );
    let program = program(&workload(200, 3));
    let asked = CellRequest { threads: true, touch: Touch::None, ..request(CellKind::Time) };
    // The thread that takes the lock panics; no other thread may wait for ever.
    let ended = std::panic::catch_unwind(|| cell::run_shared(heap, &program, &asked));
    assert!(!matches!(ended, Ok(CellReport::Time(_))), "{ended:?}");
}

#[test]
fn threads_and_one_thread_see_the_same_checkpoints() {
    let program = program(&workload(4_000, 4));
    let asked = CellRequest { threads: true, ..request(CellKind::Space) };
    let report = cell::run_shared(System(Mimalloc), &program, &asked);
    let CellReport::Space(space) = report else { panic!("{report:?}") };
    assert_eq!(space.samples.len(), program.checkpoints().len());
}

#[test]
fn a_failure_in_one_thread_ends_them_all() {
    let program = program(&workload(20_000, 4));
    #[derive(Clone)]
    struct Stingy(System<Glibc>, Arc<std::sync::atomic::AtomicI64>);
    impl Manual for Stingy {
        fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
            let left = self.1.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            if left > 0 { self.0.allocate(request) } else { None }
        }
        unsafe fn deallocate(&mut self, block: Block) {
            // SAFETY: the caller's promise.
            unsafe { self.0.deallocate(block) };
        }
        unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
            // SAFETY: the caller's promise.
            unsafe { self.0.reallocate(block, new_size) }
        }
        unsafe fn usable_size(&self, _block: Block) -> Option<usize> {
            None
        }
    }
    impl Heap for Stingy {
        fn version(&self) -> String {
            "stingy".into()
        }
        fn footprint(&self) -> Footprint {
            Footprint::default()
        }
        fn check(&self) -> Result<(), CheckError> {
            Ok(())
        }
        fn check_deep(&self) -> Result<(), CheckError> {
            Ok(())
        }
    }
    let heap = Stingy(System(Glibc), Arc::new(3_000.into()));
    let asked = CellRequest { threads: true, ..request(CellKind::Time) };
    let report = cell::run_shared(heap, &program, &asked);
    let CellReport::Failed { reason } = report else { panic!("{report:?}") };
    assert!(reason.starts_with("the heap returned NULL"), "{reason}");
}

#[test]
fn words_that_no_program_holds_are_an_error() {
    // A free in an empty slot, a slot outside of the table, and a slot taken twice, each behind a
    // correct checksum.
    let sound = program(&[Event { size: 8, ..Event::default() }]);
    assert_eq!(sound.words().len(), 2);
    for (words, expected) in [
        ([0_u32, 0], "slot 0 is empty"),
        ([9 << 3, 0], "slot 9 is outside of the table"),
        ([5, 5], "expected an instruction"),
    ] {
        let damaged = with_words(&sound, &words);
        let error: ReplayError =
            Driver::new(&damaged, System(Glibc)).unwrap().run(Touch::Known).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// `program` with other words, of the same number, and a correct checksum.
fn with_words(program: &Program, words: &[u32]) -> Program {
    let events = [Event { size: 8, ..Event::default() }];
    let mut out = Cursor::new(Vec::new());
    compile(
        &mut Slice(&events),
        &Tables::default(),
        Facts::default(),
        0,
        Path::new("test"),
        &mut out,
    )
    .unwrap();
    let mut bytes = out.into_inner();
    assert_eq!(words.len(), program.words().len());
    for (index, word) in words.iter().enumerate() {
        bytes[64 + index * 4..68 + index * 4].copy_from_slice(&word.to_le_bytes());
    }
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[64..]);
    bytes[48..56].copy_from_slice(&sum.to_le_bytes());
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..56]);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
    Program::from_bytes(&bytes, Path::new("test")).unwrap()
}
