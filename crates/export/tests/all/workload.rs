//! A workload with everything that exports must get right: inlined functions, a stripped module,
//! hostile names, stacks with equal text, reallocation, bytes without a stack, a mark.

use heaplab_export::{About, Detail, Export, Format, InUseAt};
use heaplab_profile::{At, MomentRequest, Profile, ProfileOptions, profile};
use heaplab_trace::{
    Event, Flags, Op,
    source::Slice,
    tables::{Frame, Mark, Module, Process, StackNode, Tables, Thread},
};

/// A name with everything that can break a format.
pub const HOSTILE: &str = "evil;\"name\"\\ <b>&\n\t\u{1}\u{7f}\u{2028} [u8; 4] 100";

pub fn tables() -> Tables {
    let frame = |module, address, function: Option<&str>, line, inlined_into| {
        let file = (line > 0).then(|| "/src/shop.c".to_owned());
        Frame { module, address, function: function.map(str::to_owned), file, line, inlined_into }
    };
    let frames = vec![
        frame(Some(1), 0x1100, Some("main"), 10, None),
        frame(Some(1), 0x1200, Some("copy"), 20, Some(5)),
        frame(Some(0), 0x2300, None, 0, None),
        frame(None, 0x7f00_0000_1234, None, 0, None),
        frame(Some(1), 0x1400, Some(HOSTILE), 40, None),
        frame(Some(1), 0x1200, Some("rename"), 21, Some(6)),
        frame(Some(1), 0x1200, Some("serve"), 22, None),
        frame(Some(1), 0x1400, Some(HOSTILE), 40, None),
    ];
    let node = |parent, frame| StackNode { parent, frame };
    // 1 main; 2 main > serve (rename, copy inlined); 3 main > stripped; 4 main > JIT; 5 and 6
    // main > hostile, twice.
    let stacks = vec![
        StackNode::default(),
        node(0, 0),
        node(1, 1),
        node(1, 2),
        node(1, 3),
        node(1, 4),
        node(1, 7),
    ];
    let module = |path: &str, build_id: &str, bias| Module {
        path: path.into(),
        build_id: build_id.into(),
        bias,
        size: 0x4000,
        ..Module::default()
    };
    Tables {
        stacks,
        frames,
        modules: vec![
            module("/lib/libstripped.so.1", "", 0x7f11_0000_0000),
            module("/usr/bin/shop", "ab12cd", 0x5500_0000_0000),
        ],
        processes: vec![Process {
            pid: 77,
            executable: "/usr/bin/shop".into(),
            ..Process::default()
        }],
        threads: vec![Thread { process: 0, tid: 77, name: "main".into() }],
        marks: vec![Mark { name: "open \"shop\"".into(), time_ns: 4_500_000, process: None }],
        ..Tables::default()
    }
}

pub fn events() -> Vec<Event> {
    let alloc =
        |object, size, stack| Event { op: Op::Alloc, object, size, stack, ..Event::default() };
    let free = |object| Event { op: Op::Free, object, ..Event::default() };
    let resize = |object, size, stack| Event {
        op: Op::Realloc,
        flags: Flags::MOVED,
        object,
        size,
        stack,
        ..Event::default()
    };
    let mark = Event { op: Op::Mark, object: 0, ..Event::default() };
    let mut events = vec![
        alloc(0, 100, 1),
        alloc(1, 1000, 2),
        alloc(2, 50, 5),
        alloc(3, 70, 6),
        mark,
        resize(1, 4000, 3),
        alloc(4, 7, 0),
        free(2),
        alloc(5, 300, 4),
        free(1),
        alloc(6, 20, 2),
        free(3),
        alloc(7, 0, 1),
    ];
    for (row, event) in events.iter_mut().enumerate() {
        event.time_ns = (row as u64 + 1) * 1_000_000;
    }
    events
}

/// The same workload without times.
pub fn untimed(mut events: Vec<Event>) -> Vec<Event> {
    events.iter_mut().for_each(|event| event.time_ns = 0);
    events
}

/// Profiles `events` and passes the export of `moment` to `look`; `InUseAt::Asked(0)` is the mark.
pub fn with_export<T>(
    tables: &Tables,
    events: &[Event],
    moment: InUseAt,
    look: impl FnOnce(&Export<'_>, &Profile) -> T,
) -> T {
    let mut options = ProfileOptions::default();
    options.moments.push(MomentRequest { name: "open \"shop\"".into(), at: At::Mark(0) });
    let mut detail = Detail::new(events.iter().any(|event| event.time_ns > 0));
    let profile = profile(tables, &mut Slice(events), &options, &mut detail).unwrap();
    let about =
        About { program: "shop --open \"now\"".into(), pid: 77, began_unix_s: 1_700_000_000 };
    look(&Export { tables, profile: &profile, detail: &detail, moment, about }, &profile)
}

pub fn written(export: &Export<'_>, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    export.write(format, &mut bytes).unwrap();
    bytes
}

pub fn json(export: &Export<'_>, format: Format) -> serde_json::Value {
    serde_json::from_slice(&written(export, format)).unwrap()
}
