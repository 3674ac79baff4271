//! The stacks that the preload object records, compared with those that the program noted itself.

use super::*;

tests!(here on Some(crate::machine::own()),
    stacks_are_those_of_backtrace
    stacks_through_young_generated_code_become_whole
    a_stack_whose_neighbour_goes_away_is_walked_to_its_own_end
    addresses_of_unloaded_libraries_keep_their_own_modules
    a_program_with_room_between_its_segments_has_its_stacks
);

tests!(on_aarch64 on crate::machine::aarch64(),
    stacks_are_those_of_backtrace
    a_stack_whose_neighbour_goes_away_is_walked_to_its_own_end
    addresses_of_unloaded_libraries_keep_their_own_modules
    a_program_with_room_between_its_segments_has_its_stacks
);

/// Every stack that the program noted by backtrace() equals the recorded one, frame by frame.
fn assert_stacks(text: &str, image: &Image, depth: usize) -> usize {
    let mut compared = 0;
    for line in text.lines() {
        let mut numbers = line.split(' ').map(|n| n.parse::<u64>().unwrap());
        let size = numbers.next().unwrap();
        let expected: Vec<u64> = numbers.collect();
        let events = sized(image, ALLOC, size);
        assert_eq!(events.len(), 1, "size {size}");
        let stack = image.stack(events[0].node());
        // the innermost frame called backtrace() first and malloc() later; an interrupted frame is
        // noted one byte further
        let shown = expected.len().min(depth);
        assert!(
            stack.len() >= shown,
            "size {size}: {} of {shown} frames\n{stack:x?}\n{expected:x?}",
            stack.len()
        );
        for (i, (ours, theirs)) in stack.iter().zip(&expected).enumerate().skip(1).take(shown - 1) {
            assert!(
                ours == theirs || *ours == theirs + 1,
                "size {size}, frame {i}\n{stack:x?}\n{expected:x?}"
            );
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
        let program =
            machine.compile(&folder, "stacks.c", "stacks", &["-fomit-frame-pointer", "-rdynamic"]);
        let small = machine.compile(&folder, "plugin.c", "small.so", &["-shared", "-fPIC"]);
        let large =
            machine.compile(&folder, "plugin.c", "large.so", &["-shared", "-fPIC", "-DROOM=400"]);
        // loaded one after the other, the libraries get the same address
        let (text, images) =
            record(recorded(machine, &d, &program).args([&small, &large, &small]), d);
        assert!(assert_stacks(&text, &images[0], depth as usize) > 150);
        let modules: Vec<_> = images[0]
            .modules
            .iter()
            .filter(|m| m.path.contains("/small.so") || m.path.contains("/large.so"))
            .collect();
        assert_eq!(modules.len(), 3, "{modules:#?}");
        assert!(modules.iter().all(|m| m.unloaded.is_some() && !m.build_id.is_empty()));
    }
}

/// Young generated code may be unknown at first; a stack that ends there must not count as whole
/// for ever.
fn stacks_through_young_generated_code_become_whole(machine: &Machine) {
    let d = start(machine, Options::default());
    let program =
        machine.compile(d.folder.path(), "generated.c", "generated", &["-fomit-frame-pointer"]);
    let (_, images) = record(&mut recorded(machine, &d, &program), d);
    let stacks = |size| {
        sized(&images[0], ALLOC, size)
            .into_iter()
            .map(|event| images[0].stack(event.node()))
            .collect::<Vec<_>>()
    };
    let (first, young) = (stacks(100_000), stacks(300_000));
    let whole = |stack: &Vec<u64>| stack.len() == first[0].len() && stack.last() == first[0].last();
    assert!(
        first[0].len() >= 5 && young.len() >= 2,
        "{} frames, {} blocks",
        first[0].len(),
        young.len()
    );
    assert!(
        whole(young.last().unwrap()),
        "of {} stacks {} are whole",
        young.len(),
        young.iter().filter(|stack| whole(stack)).count()
    );
}

/// A mapping may hold more than the running stack, and the rest may be unmapped: the recorder reads
/// none of the rest.
fn a_stack_whose_neighbour_goes_away_is_walked_to_its_own_end(machine: &Machine) {
    for depth in [5, 64] {
        let d = start(machine, Options { stack_depth: depth, ..Options::default() });
        let program = machine.compile(
            d.folder.path(),
            "coroutines.c",
            "coroutines",
            &["-fomit-frame-pointer", "-rdynamic"],
        );
        let (text, images) = record(&mut recorded(machine, &d, &program), d);
        assert!(assert_stacks(&text, &images[0], depth as usize) > 20);
        for size in [999_999, 999_998] {
            let stacks: Vec<_> = sized(&images[0], ALLOC, size)
                .iter()
                .map(|event| images[0].stack(event.node()).len())
                .collect();
            assert!(stacks.len() == 2 && stacks.iter().all(|&frames| frames >= 2), "{stacks:?}");
        }
    }
}

/// Such as Node: the dynamic linker knows each segment as a separate object, and only the first has
/// the headers.
fn a_program_with_room_between_its_segments_has_its_stacks(machine: &Machine) {
    let d = start(machine, Options::default());
    let program = machine.compile(
        d.folder.path(),
        "hole.c",
        "hole",
        &["-O1", "-no-pie", "-fomit-frame-pointer"],
    );
    let (_, images) = record(&mut recorded(machine, &d, &program), d);
    let image = &images[0];
    for size in [1001, 1002] {
        let stack = image.stack(sized(image, ALLOC, size)[0].node());
        assert!(stack.len() >= 4, "size {size}: {stack:x?}");
    }
    let own: Vec<_> =
        image.modules.iter().filter(|module| module.path.ends_with("/hole")).collect();
    assert!(own.len() == 1 && !own[0].build_id.is_empty(), "{:#?}", image.modules);
}

fn addresses_of_unloaded_libraries_keep_their_own_modules(machine: &Machine) {
    let d = start(machine, Options::default());
    let folder = d.folder.path().to_path_buf();
    let program = machine.compile(&folder, "stacks.c", "stacks", &["-rdynamic"]);
    let small = machine.compile(&folder, "plugin.c", "small.so", &["-shared", "-fPIC"]);
    let large =
        machine.compile(&folder, "plugin.c", "large.so", &["-shared", "-fPIC", "-DROOM=400"]);
    let (text, images) = record(recorded(machine, &d, &program).args([&small, &large]), d);
    let image = &images[0];
    let sizes: Vec<u64> =
        text.lines().map(|l| l.split(' ').next().unwrap().parse().unwrap()).collect();
    // the last four stacks: two through each library
    for (i, &size) in sizes[sizes.len() - 4..].iter().enumerate() {
        let mut node = sized(image, ALLOC, size)[0].node();
        let mut names = Vec::new();
        while node != 0 {
            let n = image.nodes[node as usize];
            names.push(
                image.module_of(node, n.ip).map_or("none", |m| m.path.rsplit('/').next().unwrap()),
            );
            node = n.parent;
        }
        let library = if i < 2 { "small.so" } else { "large.so" };
        assert_eq!(names[..4], ["stacks", library, library, "stacks"], "stack {i}");
    }
}
