//! The preload object against programs with known answers.

mod drainer;
mod machine;

use drainer::{Drainer, Event, Image, Options};
use heaplab_recorder::layout::*;
use machine::Machine;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::{Command, Stdio};

macro_rules! tests {
    ($module:ident on $machine:expr, $($name:ident)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                if let Some(machine) = $machine {
                    super::$name(machine);
                }
            })*
        }
    };
}

tests!(here on Some(crate::machine::own()),
    every_function_is_recorded_with_what_it_was_asked_and_gave
    usable_sizes_are_the_allocators_own
    stacks_are_those_of_backtrace
    stacks_through_young_generated_code_become_whole
    a_stack_whose_neighbour_goes_away_is_walked_to_its_own_end
    addresses_of_unloaded_libraries_keep_their_own_modules
    children_of_every_kind_have_their_own_images
    children_of_fork_have_their_own_images
    short_threads_share_few_rings_and_lose_nothing
    a_handler_may_allocate_wherever_it_strikes
    what_a_handler_does_is_there_or_counted_however_small_the_ring
    a_ring_that_a_handler_left_by_longjmp_is_used_again
    operators_are_recorded_once_and_still_throw
    operators_of_another_allocator_are_recorded_once
    marks_come_from_the_macro_and_from_a_signal
    a_small_ring_waits_for_the_drainer_and_loses_nothing
    what_was_published_survives_sigkill
    the_target_outlives_its_drainer
    a_ring_that_is_cut_keeps_what_nobody_has_read
    a_spool_that_is_gone_leaves_the_target_alone
    a_target_with_a_limit_on_file_sizes_is_refused_and_not_killed
    a_number_of_rings_that_was_overwritten_gives_no_ring_twice
    a_file_that_has_a_rings_name_is_left_as_it_is
    a_target_whose_files_are_not_read_runs_on
);

// Of children only those of fork: to qemu (7.2) MADV_WIPEONFORK is a hint to be ignored, so that one of raw clone would write into its
// parent's files; and exec leads out of the emulator.
tests!(on_aarch64 on crate::machine::aarch64(),
    every_function_is_recorded_with_what_it_was_asked_and_gave
    usable_sizes_are_the_allocators_own
    stacks_are_those_of_backtrace
    a_stack_whose_neighbour_goes_away_is_walked_to_its_own_end
    addresses_of_unloaded_libraries_keep_their_own_modules
    children_of_fork_have_their_own_images
    short_threads_share_few_rings_and_lose_nothing
    a_handler_may_allocate_wherever_it_strikes
    what_a_handler_does_is_there_or_counted_however_small_the_ring
    a_ring_that_a_handler_left_by_longjmp_is_used_again
    operators_are_recorded_once_and_still_throw
    operators_of_another_allocator_are_recorded_once
    marks_come_from_the_macro_and_from_a_signal
    a_small_ring_waits_for_the_drainer_and_loses_nothing
    what_was_published_survives_sigkill
    the_target_outlives_its_drainer
    a_ring_that_is_cut_keeps_what_nobody_has_read
    a_number_of_rings_that_was_overwritten_gives_no_ring_twice
    a_file_that_has_a_rings_name_is_left_as_it_is
    a_target_whose_files_are_not_read_runs_on
);

fn start(machine: &Machine, options: Options) -> Drainer {
    Drainer::with_preload(options, &machine.preload())
}

/// A program of this machine, recorded by this drainer once it is started.
fn recorded(machine: &Machine, drainer: &Drainer, program: &Path) -> Command {
    machine.command(program, &drainer.variables())
}

/// Runs a command that is recorded; it must succeed, and nothing may be lost. Gives its output and its images.
fn record(command: &mut Command, drainer: Drainer) -> (String, Vec<Image>) {
    let out = drainer.folder.path().join("stdout");
    let file = std::fs::File::create(&out).unwrap();
    let keep = drainer.folder.path().to_path_buf();
    let mut drainer = drainer;
    let mut child = drainer::start(command.stdout(file));
    let status = drainer.drain_until_exit(&mut child);
    let text = std::fs::read_to_string(keep.join("stdout")).unwrap();
    let images = drainer.finish();
    assert!(status.success(), "{status}: {text}");
    for image in &images {
        assert!(image.lost.iter().all(|&l| l == 0), "{}-{} lost {:?}", image.pid, image.seq, image.lost);
        assert_eq!(image.state, PROCESS_RECORDING);
    }
    (text, images)
}

fn sized(image: &Image, kind: u8, size: u64) -> Vec<&Event> {
    image.of_kind(kind).filter(|e| e.size() == size).collect()
}

fn every_function_is_recorded_with_what_it_was_asked_and_gave(machine: &Machine) {
    let d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "calls.c", "calls", &[]);
    let (text, images) = record(&mut recorded(machine, &d, &program), d);
    let image = &images[0];
    let given: HashMap<&str, u64> = text.lines().map(|l| l.split_once(' ').unwrap()).map(|(n, a)| (n, a.parse().unwrap())).collect();
    let one = |kind, size| match sized(image, kind, size)[..] {
        [event] => event,
        ref other => panic!("{} events of kind {kind}, size {size}", other.len()),
    };
    let page = 12; // log2
    for (name, size, align_log2, zeroed, family) in [
        ("malloc", 100001, 0, false, FAMILY_MALLOC),
        ("calloc", 300006, 0, true, FAMILY_MALLOC),
        ("aligned_alloc", 102400, 8, false, FAMILY_ALIGNED),
        ("posix_memalign", 100006, 12, false, FAMILY_ALIGNED),
        ("memalign", 100007, 6, false, FAMILY_ALIGNED),
        ("valloc", 100008, page, false, FAMILY_ALIGNED),
        ("pvalloc", 100009, page, false, FAMILY_ALIGNED),
        ("realloc_null", 100010, 0, false, FAMILY_MALLOC),
    ] {
        let event = one(ALLOC, size);
        assert_eq!(event.block(), Block { address: given[name], align_log2, zeroed, family: family as u8 }, "{name}");
        assert!(event.slack().is_some() && event.node() != 0, "{name}");
        // the reallocated ones are not freed by free()
        let freed = image.of_kind(FREE).any(|f| f.block().address == given[name] && f.counter >= event.counter);
        assert_eq!(freed, name != "calloc" || given["calloc"] == given["reallocarray"], "{name}");
    }
    let first = one(REALLOC, 400003);
    assert_eq!((first.words[3], first.words[0]), (given["calloc"], given["realloc"]));
    assert!(first.words[4] & ((1 << COUNTER_BITS) - 1) >= first.counter);
    let second = one(REALLOC, 500020);
    assert_eq!((second.words[3], second.words[0]), (given["realloc"], given["reallocarray"]));
    let asked: Vec<u64> = image.of_kind(USABLE_SIZE).map(|e| e.block().address).collect();
    assert_eq!(asked, [given["usable"]]);
    assert_eq!(one(ALLOC_FAILED, u64::MAX / 2 - 1).block().address, 0);
    assert_eq!(one(REALLOC_FAILED, u64::MAX / 2 - 2).words[3], given["realloc_null"]);
    assert_eq!((image.exit, image.began), (Some(0), BEGAN_STARTED));
    assert!(image.executable.ends_with("/calls"));
}

/// Without stacks too, where the size is read from the block's header once that has proved right.
fn usable_sizes_are_the_allocators_own(machine: &Machine) {
    for stack_depth in [0, 16] {
        let d = start(machine, Options { stack_depth, ..Options::default() });
        let program = machine.compile(d.folder.path(), "usable.c", "usable", &[]);
        let (text, images) = record(&mut recorded(machine, &d, &program), d);
        let slack: HashMap<u64, Option<u32>> = images[0].of_kind(ALLOC).map(|event| (event.size(), event.slack())).collect();
        assert_eq!(text.lines().count(), 4000);
        for line in text.lines() {
            let (size, usable) = line.split_once(' ').unwrap();
            let (size, usable): (u64, u64) = (size.parse().unwrap(), usable.parse().unwrap());
            assert_eq!(slack[&size], Some((usable - size) as u32), "depth {stack_depth}, a block of {size} bytes");
        }
    }
}

/// Every stack that the program noted by backtrace() is what was recorded, frame by frame.
fn assert_stacks(text: &str, image: &Image, depth: usize) -> usize {
    let mut compared = 0;
    for line in text.lines() {
        let mut numbers = line.split(' ').map(|n| n.parse::<u64>().unwrap());
        let size = numbers.next().unwrap();
        let expected: Vec<u64> = numbers.collect();
        let events = sized(image, ALLOC, size);
        assert_eq!(events.len(), 1, "size {size}");
        let stack = image.stack(events[0].node());
        // the innermost frame called backtrace() there and malloc() here; an interrupted frame is noted one further
        let shown = expected.len().min(depth);
        assert!(stack.len() >= shown, "size {size}: {} of {shown} frames\n{stack:x?}\n{expected:x?}", stack.len());
        for (i, (ours, theirs)) in stack.iter().zip(&expected).enumerate().skip(1).take(shown - 1) {
            assert!(ours == theirs || *ours == theirs + 1, "size {size}, frame {i}\n{stack:x?}\n{expected:x?}");
        }
        if expected.len() < depth {
            assert_eq!(stack.len(), expected.len(), "size {size}\n{stack:x?}\n{expected:x?}");
        }
        compared += 1;
    }
    compared
}

fn stacks_are_those_of_backtrace(machine: &Machine) {
    for depth in [5, 16, 64, 190] {
        let d = start(machine, Options { stack_depth: depth, ..Options::default() });
        let folder = d.folder.path().to_path_buf();
        let program = machine.compile(&folder, "stacks.c", "stacks", &["-fomit-frame-pointer", "-rdynamic"]);
        let small = machine.compile(&folder, "plugin.c", "small.so", &["-shared", "-fPIC"]);
        let large = machine.compile(&folder, "plugin.c", "large.so", &["-shared", "-fPIC", "-DROOM=400"]);
        // loaded one after the other, the libraries come to lie at the same address
        let (text, images) = record(recorded(machine, &d, &program).args([&small, &large, &small]), d);
        assert!(assert_stacks(&text, &images[0], depth as usize) > 150);
        let modules: Vec<_> = images[0].modules.iter().filter(|m| m.path.contains("/small.so") || m.path.contains("/large.so")).collect();
        assert_eq!(modules.len(), 3, "{modules:#?}");
        assert!(modules.iter().all(|m| m.unloaded.is_some() && !m.build_id.is_empty()));
    }
}

/// Code that was made a moment ago may not be known yet, and a stack that ends there is not taken for whole for ever.
fn stacks_through_young_generated_code_become_whole(machine: &Machine) {
    let d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "generated.c", "generated", &["-fomit-frame-pointer"]);
    let (_, images) = record(&mut recorded(machine, &d, &program), d);
    let stacks = |size| sized(&images[0], ALLOC, size).into_iter().map(|event| images[0].stack(event.node())).collect::<Vec<_>>();
    let (first, young) = (stacks(100_000), stacks(300_000));
    let whole = |stack: &Vec<u64>| stack.len() == first[0].len() && stack.last() == first[0].last();
    assert!(first[0].len() >= 5 && young.len() >= 2, "{} frames, {} blocks", first[0].len(), young.len());
    assert!(whole(young.last().unwrap()), "of {} stacks {} are whole", young.len(), young.iter().filter(|stack| whole(stack)).count());
}

/// A mapping may hold more than the stack that runs in it, and the rest may go: the recorder reads none of that.
fn a_stack_whose_neighbour_goes_away_is_walked_to_its_own_end(machine: &Machine) {
    for depth in [5, 64] {
        let d = start(machine, Options { stack_depth: depth, ..Options::default() });
        let program = machine.compile(d.folder.path(), "coroutines.c", "coroutines", &["-fomit-frame-pointer", "-rdynamic"]);
        let (text, images) = record(&mut recorded(machine, &d, &program), d);
        assert!(assert_stacks(&text, &images[0], depth as usize) > 20);
        for size in [999_999, 999_998] {
            let stacks: Vec<_> = sized(&images[0], ALLOC, size).iter().map(|event| images[0].stack(event.node()).len()).collect();
            assert!(stacks.len() == 2 && stacks.iter().all(|&frames| frames >= 2), "{stacks:?}");
        }
    }
}

fn addresses_of_unloaded_libraries_keep_their_own_modules(machine: &Machine) {
    let d = start(machine, Options::default());
    let folder = d.folder.path().to_path_buf();
    let program = machine.compile(&folder, "stacks.c", "stacks", &["-rdynamic"]);
    let small = machine.compile(&folder, "plugin.c", "small.so", &["-shared", "-fPIC"]);
    let large = machine.compile(&folder, "plugin.c", "large.so", &["-shared", "-fPIC", "-DROOM=400"]);
    let (text, images) = record(recorded(machine, &d, &program).args([&small, &large]), d);
    let image = &images[0];
    let sizes: Vec<u64> = text.lines().map(|l| l.split(' ').next().unwrap().parse().unwrap()).collect();
    // the last four stacks: two through each library
    for (i, &size) in sizes[sizes.len() - 4..].iter().enumerate() {
        let mut node = sized(image, ALLOC, size)[0].node();
        let mut names = Vec::new();
        while node != 0 {
            let n = image.nodes[node as usize];
            names.push(image.module_of(node, n.ip).map_or("none", |m| m.path.rsplit('/').next().unwrap()));
            node = n.parent;
        }
        let library = if i < 2 { "small.so" } else { "large.so" };
        assert_eq!(names[..4], ["stacks", library, library, "stacks"], "stack {i}");
    }
}

fn children_of_every_kind_have_their_own_images(machine: &Machine) {
    for stack_depth in [64, 0] {
        children(machine, stack_depth);
    }
}

fn children(machine: &Machine, stack_depth: u32) {
    let d = start(machine, Options { stack_depth, ..Options::default() });
    let program = machine.compile(d.folder.path(), "family.c", "family", &[]);
    let (_, images) = record(&mut recorded(machine, &d, &program), d);
    let with = |size: u64| {
        let found: Vec<&Image> = images.iter().filter(|i| !sized(i, ALLOC, size).is_empty()).collect();
        assert_eq!(found.len(), 1, "size {size} in {} images", found.len());
        found[0]
    };
    let parent = with(1000001);
    assert_eq!((parent.began, parent.exit), (BEGAN_STARTED, Some(0)));
    for vforked in [1000004, 1000005, 1000007] {
        assert_eq!(with(vforked).pid, parent.pid);
    }
    let address = sized(parent, ALLOC, 1000001)[0].block().address;
    for (size, exit, parent_image) in
        [(2000001, Some(4), parent), (2000002, Some(3), with(2000001)), (2000003, None, parent), (2000006, None, parent)]
    {
        let child = with(size);
        assert_eq!((child.began, child.exit), (BEGAN_FORK, exit), "{size}");
        assert_eq!(child.parent, (parent_image.pid, parent_image.seq), "{size}");
        assert!(stack_depth == 0 || child.modules.iter().any(|m| m.path.ends_with("/family")), "{size}");
        let inherited_free = child.of_kind(FREE).any(|e| e.block().address == address);
        assert_eq!(inherited_free, matches!(size, 2000001 | 2000003), "{size}");
    }
    let spawned = images.iter().find(|i| i.executable.ends_with("/true") && i.seq == 0).unwrap();
    assert_eq!((spawned.began, spawned.ppid), (BEGAN_STARTED, parent.pid));
    let executed = images.iter().find(|i| i.executable.ends_with("/true") && i.seq == 1).unwrap();
    assert_eq!((executed.began, executed.pid), (BEGAN_EXEC, with(2000006).pid));
}

fn children_of_fork_have_their_own_images(machine: &Machine) {
    let d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "family.c", "family", &[]);
    let (_, images) = record(recorded(machine, &d, &program).arg("fork"), d);
    let with = |size: u64| images.iter().filter(|image| !sized(image, ALLOC, size).is_empty()).collect::<Vec<_>>();
    let ([parent], [child], [grandchild]) = (&with(1000001)[..], &with(2000001)[..], &with(2000002)[..]) else {
        panic!("{}", images.len())
    };
    assert_eq!(images.len(), 3);
    assert_eq!((child.began, child.exit, child.parent), (BEGAN_FORK, Some(4), (parent.pid, parent.seq)));
    assert_eq!((grandchild.began, grandchild.exit, grandchild.parent), (BEGAN_FORK, Some(3), (child.pid, child.seq)));
    let address = sized(parent, ALLOC, 1000001)[0].block().address;
    assert!(child.of_kind(FREE).any(|event| event.block().address == address), "the child freed what it inherited");
    assert!(!parent.of_kind(FREE).any(|event| event.block().address == address), "and the parent did not");
}

fn short_threads_share_few_rings_and_lose_nothing(machine: &Machine) {
    for stack_depth in [64, 0] {
        short_threads(machine, stack_depth);
    }
}

fn short_threads(machine: &Machine, stack_depth: u32) {
    let (first, others) = (256 << 10, 64 << 10);
    let d = start(machine, Options { ring_bytes: others, first_ring_bytes: Some(first), stack_depth, ..Options::default() });
    let program = machine.compile(d.folder.path(), "threads.c", "threads", &[]);
    let (_, images) = record(&mut recorded(machine, &d, &program), d);
    let image = &images[0];
    assert_eq!(sized(image, ALLOC, 600).len(), 6000);
    assert_eq!(sized(image, ALLOC, 500).len(), 600);
    let late = sized(image, ALLOC, 501).len();
    let freed: Vec<u64> = image.of_kind(FREE).map(|e| e.block().address).collect();
    let of_late = sized(image, ALLOC, 501).iter().filter(|e| freed.contains(&e.block().address)).count();
    assert!(late >= 600 && of_late > 0, "{late} allocations by destructors, {of_late} freed");
    assert!(image.rings < 40, "{} rings", image.rings);
    assert!(image.ring_bytes.len() > 1, "{} rings were written to", image.ring_bytes.len());
    for (number, bytes) in &image.ring_bytes {
        assert_eq!(*bytes, u64::from(if *number == 0 { first } else { others }), "ring {number}");
    }
    let ended: Vec<String> = image.of_kind(THREAD_END).map(Event::text).collect();
    assert!(ended.len() >= 600 && ended.iter().all(|n| n == "short one"), "{} threads ended", ended.len());
    // sorted by time, every address is allocated and freed in turn
    let mut events: Vec<&Event> = image.events.iter().filter(|e| matches!(e.kind, ALLOC | FREE)).collect();
    events.sort_by_key(|e| e.counter);
    let mut live = HashSet::new();
    let mut unknown = 0;
    for event in events {
        let address = event.block().address;
        match event.kind {
            ALLOC => assert!(live.insert(address), "{address:x} is allocated twice"),
            _ => unknown += usize::from(!live.remove(&address)),
        }
    }
    assert_eq!(unknown, 0);
}

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
        assert_eq!((later.len(), nested), (100, 0), "depth {stack_depth} {flags:?}, struck {} times, lost {:?}", numbers[0], image.lost);
    }
}

/// Rings so small that they begin again many times: what the nested one has no room for is counted, and nothing else is missing.
fn what_a_handler_does_is_there_or_counted_however_small_the_ring(machine: &Machine) {
    for stack_depth in [64, 0] {
        let (numbers, image) = struck_in(machine, "signals", Options { stack_depth, ring_bytes: 64 << 10, ..Options::default() }, &[]);
        let (struck, allocated) = (numbers[0], numbers[1]);
        assert_eq!(sized(&image, ALLOC, 55).len(), allocated);
        let there = sized(&image, ALLOC, 777).len() + sized(&image, REALLOC, 888).len() + image.of_kind(FREE).count();
        let full = image.lost[LOST_NESTED_FULL] as usize;
        // The program's own start frees something too, before and after the handler's time.
        let others = image.of_kind(ALLOC).filter(|event| ![55, 777].contains(&event.size())).count();
        let expected = 3 * struck + allocated;
        assert!((expected..=expected + others).contains(&(there + full)), "{there} and {full} lost of {expected}, {others} others");
        assert_eq!(image.lost.iter().sum::<u64>(), (full as u64) + image.lost[LOST_NESTED_STACK], "{:?}", image.lost);
    }
}

/// What a program whose handler strikes wherever it likes says and records, on an allocator that allows it.
fn struck(machine: &Machine, name: &str, stack_depth: u32, flags: &[&str]) -> (Vec<usize>, Image) {
    // so large that nothing waits for the drainer, and the nested ring holds all that the handler does
    struck_in(machine, name, Options { stack_depth, ring_bytes: 64 << 20, ..Options::default() }, flags)
}

fn struck_in(machine: &Machine, name: &str, options: Options, flags: &[&str]) -> (Vec<usize>, Image) {
    let d = start(machine, options);
    let folder = d.folder.path().to_path_buf();
    let program = machine.compile(&folder, &format!("{name}.c"), name, &[]);
    let allocator = machine.compile(&folder, "allocator.c", "allocator.so", &[&["-shared", "-fPIC", "-fno-builtin"], flags].concat());
    let both = format!("{}:{}", d.preload.display(), allocator.display());
    let variables = [("LD_PRELOAD", both.as_ref()), (heaplab_recorder::SPOOL_VARIABLE, folder.as_os_str())];
    let out = std::fs::File::create(folder.join("stdout")).unwrap();
    let mut d = d;
    let status = d.drain_until_exit(&mut drainer::start(machine.command(&program, &variables).stdout(out)));
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
    assert_eq!(image.of_kind(ALLOC).find(|e| e.size() == 55).unwrap().slack(), Some(7), "the other allocator's usable size");
    if stack_depth > 0 {
        let stack = |event: &Event| image.stack(event.node());
        let ordinary = stack(sized(image, ALLOC, 55)[0]);
        for (kind, size) in of_handler {
            let (nested, others): (Vec<_>, Vec<_>) = sized(image, kind, size).into_iter().partition(|event| event.nested);
            let innermost: HashSet<u64> = nested.iter().chain(&others).map(|event| stack(event)[0]).collect();
            assert_eq!(innermost.len(), 1, "the handler's own call, wherever it struck");
            let from_start = nested.iter().filter(|event| stack(event).last() == ordinary.last()).count();
            // What was interrupted may have lost what a frame further out is found by (its frame pointer): such a stack ends there.
            assert!(nested.len() > 10 && from_start * 10 >= nested.len() * 9, "{from_start} of {} ({} others)", nested.len(), others.len());
        }
    }
}

fn operators_are_recorded_once_and_still_throw(machine: &Machine) {
    let d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "operators.cpp", "operators", &["-std=c++17"]);
    let (text, images) = record(&mut recorded(machine, &d, &program), d);
    assert_eq!(text, "caught\n");
    for size in [70001, 70010] {
        assert_eq!(sized(&images[0], ALLOC, size).len(), 1, "{size}");
    }
    assert_eq!(sized(&images[0], ALLOC, 1280)[0].block().address % 128, 0);
    assert_eq!(images[0].of_kind(ALLOC_FAILED).count(), 2);
}

fn operators_of_another_allocator_are_recorded_once(machine: &Machine) {
    for flags in [&["-shared", "-fPIC", "-fno-builtin"][..], &["-shared", "-fPIC", "-fno-builtin", "-DPUBLIC"]] {
        let mut d = start(machine, Options::default());
        let allocator = machine.compile(d.folder.path(), "allocator.c", "allocator.so", flags);
        let program = machine.compile(d.folder.path(), "operators.cpp", "operators", &["-std=c++17"]);
        let both = format!("{}:{}", d.preload.display(), allocator.display());
        let variables = [("LD_PRELOAD", both.as_ref()), (heaplab_recorder::SPOOL_VARIABLE, d.folder.path().as_os_str())];
        let mut command = machine.command(&program, &variables);
        d.drain_until_exit(&mut drainer::start(command.stdout(Stdio::null()).stderr(Stdio::null())));
        let image = &d.finish()[0];
        for size in [70001, 1280] {
            let block = sized(image, ALLOC, size);
            assert_eq!((block.len(), block[0].block().family), (1, FAMILY_NEW as u8), "{size} {flags:?}");
            let freed = image.of_kind(FREE).filter(|e| e.block().address == block[0].block().address).count();
            assert_eq!(freed, 1, "{size} {flags:?}");
        }
    }
}

fn marks_come_from_the_macro_and_from_a_signal(machine: &Machine) {
    let signal = libc::SIGUSR2;
    let d = start(machine, Options { mark_signal: signal as u32, ..Options::default() });
    let program = machine.compile(d.folder.path(), "marks.c", "marks", &[]);
    assert!(machine.command(&program, &[]).status().unwrap().success(), "runs alone too");
    let (_, images) = record(recorded(machine, &d, &program).arg(signal.to_string()), d);
    let marks: Vec<String> = images[0].of_kind(MARK).map(Event::text).collect();
    assert_eq!(marks, ["loaded", "signal", "the end, with a name that is longer than a word"]);
}

fn a_small_ring_waits_for_the_drainer_and_loses_nothing(machine: &Machine) {
    let d = start(machine, Options { ring_bytes: 64 << 10, stack_depth: 0, ..Options::default() });
    let program = machine.compile(d.folder.path(), "loop.c", "loop", &[]);
    let (text, images) = record(recorded(machine, &d, &program).arg("100000"), d);
    assert_eq!(text, "done\n");
    let blocks = images[0].of_kind(ALLOC).filter(|e| (60000..60007).contains(&e.size())).count();
    assert_eq!(blocks, 100000);
    assert_eq!(images[0].nodes.len(), 0);
}

fn what_was_published_survives_sigkill(machine: &Machine) {
    let mut d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "loop.c", "loop", &[]);
    let mut child = drainer::start(recorded(machine, &d, &program).args(["3000", "die"]).stdout(Stdio::null()));
    let status = child.wait().unwrap();
    assert!(!status.success());
    d.turn();
    let image = &d.finish()[0];
    assert_eq!(image.of_kind(ALLOC).filter(|e| (60000..60007).contains(&e.size())).count(), 3000);
    assert_eq!(image.exit, None);
}

/// The target waits for room from then on, which nobody makes.
fn until_a_ring_is_full(d: &Drainer, child: &mut std::process::Child) {
    while !d.has_full_ring() {
        assert!(child.try_wait().unwrap().is_none(), "it ended although its ring is full");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn the_target_outlives_its_drainer(machine: &Machine) {
    for stopped in [false, true] {
        let d = start(machine, Options { ring_bytes: 64 << 10, ..Options::default() });
        let program = machine.compile(d.folder.path(), "loop.c", "loop", &[]);
        // nobody drains: the ring fills, and the target waits for us
        let mut child = drainer::start(recorded(machine, &d, &program).arg("100000").stdout(Stdio::null()));
        until_a_ring_is_full(&d, &mut child);
        if stopped {
            d.control().state.store(CONTROL_STOPPED, std::sync::atomic::Ordering::Release);
        } else {
            d.die();
        }
        assert!(child.wait().unwrap().success());
        let image = &d.finish()[0];
        assert_eq!((image.state, image.cut_reason), (PROCESS_CUT, if stopped { CUT_STOPPED } else { CUT_DRAINER_DEAD }));
        assert!(image.events.iter().all(|e| e.counter <= image.cut_counter));
        assert!(image.event_count > 1000 && image.event_count < 10000, "{}", image.event_count);
    }
}

/// The event for which there is no room needs many words for its stack and is written without: what the drainer never read stays as it is.
fn a_ring_that_is_cut_keeps_what_nobody_has_read(machine: &Machine) {
    for ring_bytes in [64 << 10, 128 << 10] {
        let d = start(machine, Options { ring_bytes, ..Options::default() });
        let program = machine.compile(d.folder.path(), "forest.c", "forest", &[]);
        d.control().state.store(CONTROL_STOPPED, std::sync::atomic::Ordering::Release);
        let out = recorded(machine, &d, &program).arg("100000").output().unwrap();
        assert_eq!((out.status.code(), &out.stdout[..]), (Some(0), &b"done\n"[..]));
        let image = &d.finish()[0];
        assert_eq!((image.state, image.cut_reason), (PROCESS_CUT, CUT_STOPPED));
        let of_24 = sized(image, ALLOC, 24).len();
        assert!(of_24 > 100, "{of_24} of {ring_bytes} bytes");
    }
}

fn a_spool_that_is_gone_leaves_the_target_alone(machine: &Machine) {
    let folder = tempfile::tempdir().unwrap();
    let program = machine.compile(folder.path(), "loop.c", "loop", &[]);
    let preload = folder.path().join("preload.so");
    std::fs::write(&preload, heaplab_recorder::PRELOAD).unwrap();
    for spool in ["/nonexistent/folder", ""] {
        let run =
            Command::new(&program).arg("1000").env("LD_PRELOAD", &preload).env(heaplab_recorder::SPOOL_VARIABLE, spool).output().unwrap();
        assert_eq!((run.status.code(), &run.stdout[..], &run.stderr[..]), (Some(0), &b"done\n"[..], &b""[..]));
    }
    // the folder is there, but nothing can be made in it: said in the control page
    let d = start(machine, Options::default());
    std::fs::create_dir(d.folder.path().join("real")).unwrap();
    let long = d.folder.path().to_path_buf();
    std::fs::set_permissions(&long, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
    let mut child = drainer::start(recorded(machine, &d, &program).arg("1000").stdout(Stdio::null()));
    assert!(child.wait().unwrap().success());
    let refused = d.control().refused.load(std::sync::atomic::Ordering::Acquire);
    std::fs::set_permissions(&long, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // root writes where it may not
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        assert_eq!(refused, 1);
    }
}

fn a_target_with_a_limit_on_file_sizes_is_refused_and_not_killed(machine: &Machine) {
    let d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "loop.c", "loop", &[]);
    let script = format!("ulimit -f 64; exec '{}' 1000", program.display());
    let mut d = d;
    let status = d.drain_until_exit(&mut d.spawn(Command::new("sh").args(["-c", &script]).stdout(Stdio::null())));
    assert!(status.success(), "{status}");
    let read = |value: &std::sync::atomic::AtomicU32| value.load(std::sync::atomic::Ordering::Acquire);
    let control = d.control();
    assert_eq!((read(&control.refused), read(&control.refused_errno)), (1, libc::EFBIG as u32));
}

/// The number stands where the program can write: a thread that took its ring's from there would share one, and wait for ever where it is
/// emptied as another's.
fn a_number_of_rings_that_was_overwritten_gives_no_ring_twice(machine: &Machine) {
    let d = start(machine, Options { ring_bytes: 64 << 10, ..Options::default() });
    let program = machine.compile(d.folder.path(), "overwritten.c", "overwritten", &[]);
    let (_, images) = record(&mut recorded(machine, &d, &program), d);
    let of = |size| sized(&images[0], ALLOC, size).len();
    assert_eq!((of(701), of(702), images[0].rings), (40_000, 20_000, 3));
}

fn a_file_that_has_a_rings_name_is_left_as_it_is(machine: &Machine) {
    let mut d = start(machine, Options::default());
    let program = machine.compile(d.folder.path(), "overwritten.c", "overwritten", &[]);
    let mut child = drainer::start(recorded(machine, &d, &program).arg("taken"));
    let status = d.drain_until_exit(&mut child);
    assert!(status.success(), "{status}: the file was written over");
    let read = |value: &std::sync::atomic::AtomicU32| value.load(std::sync::atomic::Ordering::Acquire);
    let (refused, errno) = (read(&d.control().refused), read(&d.control().refused_errno));
    assert!(refused > 0 && errno == libc::EEXIST as u32, "{refused} times error {errno}");
    let image = &d.finish()[0];
    assert!(sized(image, ALLOC, 702).is_empty() && image.lost[LOST_NO_RING] >= 40_000 && image.rings == 1, "{:?}", image.lost);
}

/// Nobody empties its ring, although the drainer lives: it says that it cannot read it.
fn a_target_whose_files_are_not_read_runs_on(machine: &Machine) {
    let d = start(machine, Options { ring_bytes: 64 << 10, ..Options::default() });
    let program = machine.compile(d.folder.path(), "loop.c", "loop", &[]);
    let mut child = drainer::start(recorded(machine, &d, &program).arg("100000").stdout(Stdio::null()));
    until_a_ring_is_full(&d, &mut child);
    std::fs::write(d.folder.path().join(format!("{}-0.unread", child.id())), "").unwrap();
    assert!(child.wait().unwrap().success());
    let image = &d.finish()[0];
    assert_eq!((image.state, image.cut_reason), (PROCESS_CUT, CUT_UNREAD));
    assert!(image.event_count > 1000 && image.event_count < 10000, "{}", image.event_count);
}

/// Modules beyond what there is room for are counted, and what came before them is whole: readers take no more than the header says there is.
#[test]
fn records_that_are_full_end_with_a_whole_one() {
    let machine = crate::machine::own();
    let mut d = Drainer::with_preload(Options::default(), &machine.object(&["-DRECORDS_CAPACITY=(8u<<10)"]));
    let folder = d.folder.path().to_path_buf();
    let program = machine.compile(&folder, "stacks.c", "stacks", &["-rdynamic"]);
    let library = machine.compile(&folder, "plugin.c", "plugin.so", &["-shared", "-fPIC"]);
    let copies: Vec<_> = (0..80).map(|copy| folder.join(format!("{copy}.so"))).collect();
    for copy in &copies {
        std::fs::copy(&library, copy).unwrap();
    }
    let mut child = drainer::start(recorded(machine, &d, &program).args(&copies).stdout(std::process::Stdio::null()));
    assert!(d.drain_until_exit(&mut child).success());
    let image = &d.finish()[0];
    assert!(image.lost[LOST_RECORDS_FULL] > 0 && image.modules.len() > 20, "{} modules, lost {:?}", image.modules.len(), image.lost);
}

/// A function that nobody calls is as a rule one whose call was lost.
#[test]
fn the_preload_object_compiles_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload/preload.c");
    let flags = [
        "-std=gnu11",
        "-O2",
        "-fPIC",
        "-fvisibility=hidden",
        "-ftls-model=initial-exec",
        "-fexceptions",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-c",
    ];
    let done = Command::new("cc").args(flags).arg(source).arg("-o").arg(folder.path().join("preload.o")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
