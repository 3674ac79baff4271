//! A program's mappings past malloc: each call with its range and its stack, and a handler's.

use super::*;

tests!(here on Some(crate::machine::own()),
    every_mapping_is_recorded_in_order_and_a_handlers_too
);

tests!(on_aarch64 on crate::machine::aarch64(),
    every_mapping_is_recorded_in_order_and_a_handlers_too
);

const HANDLERS_BYTES: u64 = 3 << 16;

fn every_mapping_is_recorded_in_order_and_a_handlers_too(machine: &Machine) {
    for stack_depth in [64, 0] {
        let d = start(machine, Options { stack_depth, ..Options::default() });
        let program = machine.compile(d.folder.path(), "maps.c", "maps", &[]);
        let (text, images) = record(&mut recorded(machine, &d, &program), d);
        let image = &images[0];
        let mut lines: Vec<&str> = text.lines().collect();
        let counts: Vec<usize> =
            lines.pop().unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
        let [struck, allocated, failed] = counts[..] else { panic!("{text}") };
        assert_eq!(failed, 0, "{text}");
        assert!(struck > 0, "never struck");

        let events = image.events.iter().filter(|event| [MAP, UNMAP].contains(&event.kind));
        let (handlers, own): (Vec<&Event>, Vec<&Event>) =
            events.partition(|event| event.words[1] == HANDLERS_BYTES);
        let seen: Vec<String> = own
            .iter()
            .map(|event| {
                let what = if event.kind == MAP { "map" } else { "unmap" };
                assert_eq!(event.words[0] >> MAP_OWNER_SHIFT, u64::from(MAP_PROGRAM));
                format!("{what} {:x} {:x}", event.words[0], event.words[1])
            })
            .collect();
        assert_eq!(seen, lines);
        for event in own.iter().filter(|event| event.kind == MAP && stack_depth > 0) {
            let node = event.node();
            let innermost = image.stack(node)[0];
            let module = image.module_of(node, innermost).expect("a module");
            assert!(module.path.ends_with("/maps"), "{}", module.path);
        }
        let lost = image.lost[LOST_NESTED_FULL] + image.lost[LOST_NESTED_DEEPER];
        assert_eq!(handlers.len() + lost as usize, 2 * struck, "lost {:?}", image.lost);
        let blocks = image.of_kind(ALLOC).filter(|event| event.size() == 55).count();
        assert_eq!(blocks, allocated, "mappings cost no block");
    }
}
