//! The preload object against programs with known answers.

#[path = "../drainer/mod.rs"]
mod drainer;
#[path = "../machine/mod.rs"]
mod machine;

use drainer::{Drainer, Event, Image, Options};
use heaplab_preload::layout::*;
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

mod handlers;
mod harm;
mod maps;
mod sandboxes;
mod stacks;

tests!(here on Some(crate::machine::own()),
    every_function_is_recorded_with_what_it_was_asked_and_gave
    usable_sizes_are_the_allocators_own
    children_of_every_kind_have_their_own_images
    children_of_fork_have_their_own_images
    short_threads_share_few_rings_and_lose_nothing
    operators_are_recorded_once_and_still_throw
    operators_of_another_allocator_are_recorded_once
    marks_come_from_the_macro_and_from_a_signal
    a_small_ring_waits_for_the_drainer_and_loses_nothing
);

// Only children of fork: qemu (7.2) ignores MADV_WIPEONFORK, and a child of raw clone would write
// into its parent's files; exec leads out of the emulator.
tests!(on_aarch64 on crate::machine::aarch64(),
    every_function_is_recorded_with_what_it_was_asked_and_gave
    usable_sizes_are_the_allocators_own
    children_of_fork_have_their_own_images
    short_threads_share_few_rings_and_lose_nothing
    operators_are_recorded_once_and_still_throw
    operators_of_another_allocator_are_recorded_once
    marks_come_from_the_macro_and_from_a_signal
    a_small_ring_waits_for_the_drainer_and_loses_nothing
);

fn start(machine: &Machine, options: Options) -> Drainer {
    Drainer::with_preload(options, &machine.preload())
}

/// A command that runs a program of this machine, recorded by this drainer.
fn recorded(machine: &Machine, drainer: &Drainer, program: &Path) -> Command {
    machine.command(program, &drainer.variables())
}

/// Runs a command under the recorder; the command must succeed, and nothing may be lost. Returns
/// its output and its images.
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
        assert!(
            image.lost.iter().all(|&l| l == 0),
            "{}-{} lost {:?}",
            image.pid,
            image.seq,
            image.lost
        );
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
    let given: HashMap<&str, u64> = text
        .lines()
        .map(|l| l.split_once(' ').unwrap())
        .map(|(n, a)| (n, a.parse().unwrap()))
        .collect();
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
        assert_eq!(
            event.block(),
            Block { address: given[name], align_log2, zeroed, family: family as u8 },
            "{name}"
        );
        assert!(event.slack().is_some() && event.node() != 0, "{name}");
        // realloc frees these, not free()
        let freed = image
            .of_kind(FREE)
            .any(|f| f.block().address == given[name] && f.counter >= event.counter);
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

/// Without stacks too, where the recorder reads the size from the block's header after its trials.
fn usable_sizes_are_the_allocators_own(machine: &Machine) {
    for stack_depth in [0, 16] {
        let d = start(machine, Options { stack_depth, ..Options::default() });
        let program = machine.compile(d.folder.path(), "usable.c", "usable", &[]);
        let (text, images) = record(&mut recorded(machine, &d, &program), d);
        let slack: HashMap<u64, Option<u32>> =
            images[0].of_kind(ALLOC).map(|event| (event.size(), event.slack())).collect();
        assert_eq!(text.lines().count(), 4000);
        for line in text.lines() {
            let (size, usable) = line.split_once(' ').unwrap();
            let (size, usable): (u64, u64) = (size.parse().unwrap(), usable.parse().unwrap());
            assert_eq!(
                slack[&size],
                Some((usable - size) as u32),
                "depth {stack_depth}, a block of {size} bytes"
            );
        }
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
        let found: Vec<&Image> =
            images.iter().filter(|i| !sized(i, ALLOC, size).is_empty()).collect();
        assert_eq!(found.len(), 1, "size {size} in {} images", found.len());
        found[0]
    };
    let parent = with(1000001);
    assert_eq!((parent.began, parent.exit), (BEGAN_STARTED, Some(0)));
    for vforked in [1000004, 1000005, 1000007] {
        assert_eq!(with(vforked).pid, parent.pid);
    }
    let address = sized(parent, ALLOC, 1000001)[0].block().address;
    for (size, exit, parent_image) in [
        (2000001, Some(4), parent),
        (2000002, Some(3), with(2000001)),
        (2000003, None, parent),
        (2000006, None, parent),
    ] {
        let child = with(size);
        assert_eq!((child.began, child.exit), (BEGAN_FORK, exit), "{size}");
        assert_eq!(child.parent, (parent_image.pid, parent_image.seq), "{size}");
        assert!(
            stack_depth == 0 || child.modules.iter().any(|m| m.path.ends_with("/family")),
            "{size}"
        );
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
    let with = |size: u64| {
        images.iter().filter(|image| !sized(image, ALLOC, size).is_empty()).collect::<Vec<_>>()
    };
    let ([parent], [child], [grandchild]) =
        (&with(1000001)[..], &with(2000001)[..], &with(2000002)[..])
    else {
        panic!("{}", images.len())
    };
    assert_eq!(images.len(), 3);
    assert_eq!(
        (child.began, child.exit, child.parent),
        (BEGAN_FORK, Some(4), (parent.pid, parent.seq))
    );
    assert_eq!(
        (grandchild.began, grandchild.exit, grandchild.parent),
        (BEGAN_FORK, Some(3), (child.pid, child.seq))
    );
    let address = sized(parent, ALLOC, 1000001)[0].block().address;
    assert!(
        child.of_kind(FREE).any(|event| event.block().address == address),
        "the child freed what it inherited"
    );
    assert!(
        !parent.of_kind(FREE).any(|event| event.block().address == address),
        "and the parent did not"
    );
}

fn short_threads_share_few_rings_and_lose_nothing(machine: &Machine) {
    for stack_depth in [64, 0] {
        short_threads(machine, stack_depth);
    }
}

fn short_threads(machine: &Machine, stack_depth: u32) {
    let (first, others) = (256 << 10, 64 << 10);
    let d = start(
        machine,
        Options {
            ring_bytes: others,
            first_ring_bytes: Some(first),
            stack_depth,
            ..Options::default()
        },
    );
    let program = machine.compile(d.folder.path(), "threads.c", "threads", &[]);
    let (_, images) = record(&mut recorded(machine, &d, &program), d);
    let image = &images[0];
    assert_eq!(sized(image, ALLOC, 600).len(), 6000);
    assert_eq!(sized(image, ALLOC, 500).len(), 600);
    let late = sized(image, ALLOC, 501).len();
    let freed: Vec<u64> = image.of_kind(FREE).map(|e| e.block().address).collect();
    let of_late =
        sized(image, ALLOC, 501).iter().filter(|e| freed.contains(&e.block().address)).count();
    assert!(late >= 600 && of_late > 0, "{late} allocations by destructors, {of_late} freed");
    assert!(image.rings < 40, "{} rings", image.rings);
    assert!(image.ring_bytes.len() > 1, "{} rings were written to", image.ring_bytes.len());
    for (number, bytes) in &image.ring_bytes {
        assert_eq!(*bytes, u64::from(if *number == 0 { first } else { others }), "ring {number}");
    }
    let ended: Vec<String> = image.of_kind(THREAD_END).map(Event::text).collect();
    assert!(
        ended.len() >= 600 && ended.iter().all(|n| n == "short one"),
        "{} threads ended",
        ended.len()
    );
    // sorted by time, every address is allocated and freed in turn
    let mut events: Vec<&Event> =
        image.events.iter().filter(|e| matches!(e.kind, ALLOC | FREE)).collect();
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

fn operators_are_recorded_once_and_still_throw(machine: &Machine) {
    if !machine.has_cpp() {
        return;
    }
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
    if !machine.has_cpp() {
        return;
    }
    for flags in [
        &["-shared", "-fPIC", "-fno-builtin"][..],
        &["-shared", "-fPIC", "-fno-builtin", "-DPUBLIC"],
    ] {
        let mut d = start(machine, Options::default());
        let allocator = machine.compile(d.folder.path(), "allocator.c", "allocator.so", flags);
        let program =
            machine.compile(d.folder.path(), "operators.cpp", "operators", &["-std=c++17"]);
        let both = format!("{}:{}", d.preload.display(), allocator.display());
        let variables = [
            ("LD_PRELOAD", both.as_ref()),
            (heaplab_preload::SPOOL_VARIABLE, d.folder.path().as_os_str()),
        ];
        let mut command = machine.command(&program, &variables);
        d.drain_until_exit(&mut drainer::start(
            command.stdout(Stdio::null()).stderr(Stdio::null()),
        ));
        let image = &d.finish()[0];
        for size in [70001, 1280] {
            let block = sized(image, ALLOC, size);
            assert_eq!(
                (block.len(), block[0].block().family),
                (1, FAMILY_NEW as u8),
                "{size} {flags:?}"
            );
            let freed = image
                .of_kind(FREE)
                .filter(|e| e.block().address == block[0].block().address)
                .count();
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

/// An uncalled function usually means a lost call.
#[test]
fn the_preload_object_compiles_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/preload.c");
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
    let done = Command::new("cc")
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(folder.path().join("preload.o"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
