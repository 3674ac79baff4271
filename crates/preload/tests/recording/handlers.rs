//! Signal handlers that allocate in the middle of a record, on an allocator that allows this.

use super::*;

tests!(here on Some(crate::machine::own()),
    a_handler_may_allocate_wherever_it_strikes
    what_a_handler_does_is_there_or_counted_however_small_the_ring
    a_ring_that_a_handler_left_by_longjmp_is_used_again
);

tests!(on_aarch64 on crate::machine::aarch64(),
    a_handler_may_allocate_wherever_it_strikes
    what_a_handler_does_is_there_or_counted_however_small_the_ring
    a_ring_that_a_handler_left_by_longjmp_is_used_again
);

fn a_handler_may_allocate_wherever_it_strikes(machine: &Machine) {
    handler_that_allocates(machine, 64, &[]);
    // an allocator that looks like libc, and no stacks: the short way through the hooks
    handler_that_allocates(machine, 0, &["-DWITH_STRDUP"]);
    // the same with stacks: only frees go the short way
    handler_that_allocates(machine, 64, &["-DWITH_STRDUP"]);
}

fn a_ring_that_a_handler_left_by_longjmp_is_used_again(machine: &Machine) {
    for (stack_depth, flags) in [(0, &["-DWITH_STRDUP"][..]), (0, &[]), (64, &["-DWITH_STRDUP"])] {
        let (numbers, image) = struck(machine, "longjmp", stack_depth, flags);
        assert!(numbers[0] > 0, "never struck");
        let later = sized(&image, ALLOC, 333);
        let nested = later.iter().filter(|event| event.nested).count();
        assert_eq!(
            (later.len(), nested),
            (100, 0),
            "depth {stack_depth} {flags:?}, struck {} times, lost {:?}",
            numbers[0],
            image.lost
        );
    }
}

/// Rings so small that they wrap many times: events without room in the nested ring are counted,
/// and nothing else is missing.
fn what_a_handler_does_is_there_or_counted_however_small_the_ring(machine: &Machine) {
    for stack_depth in [64, 0] {
        let (numbers, image) = struck_in(
            machine,
            "signals",
            Options { stack_depth, ring_bytes: 64 << 10, ..Options::default() },
            &[],
        );
        let (struck, allocated) = (numbers[0], numbers[1]);
        let found = sized(&image, ALLOC, 55).len();
        let (lost, cut) = (&image.lost, image.cut_reason);
        assert_eq!(found, allocated, "depth {stack_depth}, lost {lost:?}, cut {cut}");
        let there = sized(&image, ALLOC, 777).len()
            + sized(&image, REALLOC, 888).len()
            + image.of_kind(FREE).count();
        let full = image.lost[LOST_NESTED_FULL] as usize;
        // The program's own start frees some blocks too, outside of the handler's time.
        let others =
            image.of_kind(ALLOC).filter(|event| ![55, 777].contains(&event.size())).count();
        let expected = 3 * struck + allocated;
        assert!(
            (expected..=expected + others).contains(&(there + full)),
            "{there} and {full} lost of {expected}, {others} others"
        );
        assert_eq!(
            image.lost.iter().sum::<u64>(),
            (full as u64) + image.lost[LOST_NESTED_STACK],
            "{:?}",
            image.lost
        );
    }
}

/// Output and recording of a program with a handler that strikes anywhere, on an allocator that
/// allows this.
fn struck(machine: &Machine, name: &str, stack_depth: u32, flags: &[&str]) -> (Vec<usize>, Image) {
    // so large that nothing waits for the drainer, and the nested ring holds all of the handler's
    // events
    struck_in(
        machine,
        name,
        Options { stack_depth, ring_bytes: 64 << 20, ..Options::default() },
        flags,
    )
}

fn struck_in(
    machine: &Machine,
    name: &str,
    options: Options,
    flags: &[&str],
) -> (Vec<usize>, Image) {
    let d = start(machine, options);
    let folder = d.folder.path().to_path_buf();
    let program = machine.compile(&folder, &format!("{name}.c"), name, &[]);
    let allocator = machine.compile(
        &folder,
        "allocator.c",
        "allocator.so",
        &[&["-shared", "-fPIC", "-fno-builtin"], flags].concat(),
    );
    let both = format!("{}:{}", d.preload.display(), allocator.display());
    let variables =
        [("LD_PRELOAD", both.as_ref()), (heaplab_preload::SPOOL_VARIABLE, folder.as_os_str())];
    let out = std::fs::File::create(folder.join("stdout")).unwrap();
    let mut d = d;
    let status =
        d.drain_until_exit(&mut drainer::start(machine.command(&program, &variables).stdout(out)));
    let text = std::fs::read_to_string(folder.join("stdout")).unwrap();
    assert!(status.success(), "{status}");
    let numbers: Vec<usize> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
    (numbers, d.finish().remove(0))
}

fn handler_that_allocates(machine: &Machine, stack_depth: u32, flags: &[&str]) {
    let (numbers, image) = struck(machine, "signals", stack_depth, flags);
    let image = &image;
    assert_eq!(image.lost.iter().sum::<u64>(), 0, "{:?}", image.lost);
    let of_handler = [(ALLOC, 777), (REALLOC, 888)];
    assert_eq!(of_handler.map(|(kind, size)| sized(image, kind, size).len()), [numbers[0]; 2]);
    assert_eq!(sized(image, ALLOC, 55).len(), numbers[1]);
    assert_eq!(
        image.of_kind(ALLOC).find(|e| e.size() == 55).unwrap().slack(),
        Some(7),
        "the other allocator's usable size"
    );
    if stack_depth > 0 {
        let stack = |event: &Event| image.stack(event.node());
        let ordinary = stack(sized(image, ALLOC, 55)[0]);
        for (kind, size) in of_handler {
            let (nested, others): (Vec<_>, Vec<_>) =
                sized(image, kind, size).into_iter().partition(|event| event.nested);
            let innermost: HashSet<u64> =
                nested.iter().chain(&others).map(|event| stack(event)[0]).collect();
            assert_eq!(innermost.len(), 1, "the handler's own call, wherever it struck");
            let from_start =
                nested.iter().filter(|event| stack(event).last() == ordinary.last()).count();
            // A handler may strike when the frame pointer of an outer frame is not saved: such a
            // stack ends there.
            assert!(
                nested.len() > 10 && from_start * 10 >= nested.len() * 9,
                "{from_start} of {} ({} others)",
                nested.len(),
                others.len()
            );
        }
    }
}
