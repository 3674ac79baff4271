//! A made-up recording with everything that a page can show, small enough to know its answers: a
//! program that loads a catalogue into pages a few bytes too large, serves requests from
//! short-lived buffers, grows one buffer too slowly, closes, and forgets some of it. Names are as
//! unfriendly as names get.

mod collected;

use heaplab_experiment::results::{
    CellFailure, Comparison, HeapResult, Machine, Measure, Outcome, RESULTS_VERSION, Results,
    Settings, Space, SpaceMoment, Time, Touch, Workload,
};
use heaplab_findings::{Findings, find};
use heaplab_profile::{Profile, ProfileOptions};
use heaplab_report::page::{limits, model};
use heaplab_report::{HeapAt, Report, Saved, Shown};
use heaplab_statistics::Estimate;
use heaplab_trace::{
    Event, Flags, Op, StackId,
    bundle::Meta,
    source::Slice,
    tables::{
        Began, Ended, Frame, Mark, Module, Process, ResidentKind, ResidentPart, Sample, StackNode,
        Tables, Thread,
    },
};

/// A name that would run a script, were it taken for markup.
pub const HOSTILE: &str = "</script><img src=x onerror=\"window.hacked=1\"><!--";

const LOADED_PAGES: u64 = 1_500;
const REQUESTS: u64 = 4_000;

/// A recording with its findings.
pub struct Recorded {
    pub meta: Meta,
    pub tables: Tables,
    pub profile: Profile,
    pub findings: Findings,
    pub events: Vec<Event>,
    /// The newest first.
    pub replays: Vec<Results>,
    /// Row of the process that the page is about; `None`: all.
    pub process: Option<u32>,
    /// Heaps that ran it.
    pub heaps_at: Vec<HeapAt>,
}

impl Recorded {
    /// The page of it.
    pub fn page(&self) -> model::Page {
        let Recorded { meta, tables, profile, findings, replays, process, heaps_at, .. } = self;
        let saved = Saved {
            finding: 1,
            heap: "glibc".into(),
            estimated_at_peak_bytes: 4096,
            peak_resident_bytes: [3 << 20, 2 << 20],
            peak_requested_bytes: [2 << 20, 1 << 20],
            requests: [100, 90],
        };
        heaplab_report::page::page(&Report {
            what_if: "heaplab what-if app.heaplab --fix ",
            savings: &[saved],
            path: std::path::Path::new("app.heaplab"),
            peaks: &[],
            shown: &Shown::Nothing,
            meta,
            tables,
            process: *process,
            profile,
            dark_matter: None,
            findings,
            replays,
            metaspaces: &[],
            heaps_at,
            with_sources: false,
        })
    }
}

/// Everything there is.
pub fn full() -> Recorded {
    let mut workload = Generator::new();
    workload.run();
    let mut sample = analyse(workload.meta(), workload.tables, &workload.events);
    sample.replays = vec![results(), earlier_results()];
    sample
}

/// The bare one, run by a heap that collects.
pub fn collected() -> Recorded {
    Recorded { heaps_at: vec![collected::heap_at("v8:many")], ..bare() }
}

/// The same, run by two heaps.
pub fn collected_twice() -> Recorded {
    let heaps_at = ["v8:many", "v8:legacy"].map(collected::heap_at);
    Recorded { heaps_at: heaps_at.into(), ..bare() }
}

/// A recording without stacks, samples, marks, findings or a replay, cut and with losses.
pub fn bare() -> Recorded {
    let events: Vec<Event> = (0..40)
        .flat_map(|object| {
            let alloc = Event {
                op: Op::Alloc,
                object,
                size: 64,
                time_ns: object * 2_000,
                ..Event::default()
            };
            [
                alloc,
                Event { op: Op::Free, object, time_ns: object * 2_000 + 900, ..Event::default() },
            ]
        })
        .collect();
    let meta = Meta {
        program: "bare".into(),
        cut: Some("heaplab was killed after 80 events".into()),
        losses: vec!["3 events of thread 7 were lost: its ring was full when heaplab died".into()],
        events: events.len() as u64,
        duration_ns: 80_000,
        ..Meta::default()
    };
    analyse(meta, Tables { stacks: vec![StackNode::default()], ..Tables::default() }, &events)
}

/// A child of a shell: the second program of its pid, from 2 ms to 3 ms of the recording, with the
/// marks of others before, during and after it, so close to one another that not all names have
/// room, and one sample of its resident memory.
pub fn child() -> Recorded {
    let process = |pid, name: &str, began_ns, ended_ns| Process {
        pid,
        executable: format!("/usr/bin/{name}"),
        began_ns,
        ended_ns: Some(ended_ns),
        ended: Ended::Exited(0),
        ..Process::default()
    };
    let mark = |name: &str, time_ns, process| Mark { name: name.into(), time_ns, process };
    let marks = vec![
        mark("before", 1_000_000, None),
        mark("loaded", 2_500_000, Some(0)),
        mark("checked", 2_500_100, None),
        mark("squeezed", 2_500_200, None),
        mark("own", 2_800_000, Some(2)),
        // The second of its name.
        mark("loaded", 4_000_000, None),
    ];
    let tables = Tables {
        stacks: vec![StackNode::default()],
        processes: vec![
            process(10, "sh", 0, 5_000_000),
            process(11, "sh", 1_900_000, 2_000_000),
            process(11, "tool", 2_000_000, 3_000_000),
        ],
        threads: vec![Thread { process: 2, ..Thread::default() }],
        samples: vec![Sample {
            time_ns: 2_600_000,
            process: 2,
            resident_bytes: 3 << 20,
            ..Sample::default()
        }],
        marks,
        ..Tables::default()
    };
    let mut events: Vec<Event> = (0..100)
        .map(|object| Event {
            op: Op::Alloc,
            object,
            size: 1_000,
            time_ns: 2_000_000 + object * 10_000,
            process: 2,
            ..Event::default()
        })
        .collect();
    events.insert(
        81,
        Event { op: Op::Mark, object: 4, time_ns: 2_800_000, process: 2, ..Event::default() },
    );
    let meta = Meta {
        program: "sh build.sh".into(),
        events: events.len() as u64,
        duration_ns: 5_000_000,
        ..Meta::default()
    };
    Recorded { process: Some(2), ..analyse(meta, tables, &events) }
}

/// A recording without a single event.
pub fn empty() -> Recorded {
    analyse(Meta::default(), Tables::default(), &[])
}

/// As many stacks as asked for, eight deep, each with one object that is never freed; a mark at
/// every tenth.
pub fn large(stacks: u32) -> Recorded {
    let mut tables = Tables { stacks: vec![StackNode::default()], ..Tables::default() };
    for function in 0..20_000 {
        tables.frames.push(Frame {
            function: Some(format!("some::module::of::a::larger::program::function_{function}")),
            ..Frame::default()
        });
    }
    let mut events = Vec::new();
    for leaf in 0..stacks {
        // Eight base-five digits choose the way down; the last frame is one of many.
        let mut parent = 0;
        for level in 0..8 {
            let frame =
                if level == 7 { leaf % 20_000 } else { level * 5 + leaf / 5u32.pow(level) % 5 };
            let known = tables.stacks.len() as u32;
            tables.stacks.push(StackNode { parent, frame });
            parent = known;
        }
        let object = u64::from(leaf);
        events.push(Event {
            op: Op::Alloc,
            object,
            size: 16 + object % 5_000,
            stack: parent,
            time_ns: object * 1_000,
            ..Event::default()
        });
        if leaf % 10 == 0 {
            tables.marks.push(Mark {
                name: format!("turn {leaf}"),
                time_ns: object * 1_000,
                process: None,
            });
            events.push(Event {
                op: Op::Mark,
                object: tables.marks.len() as u64 - 1,
                time_ns: object * 1_000,
                ..Event::default()
            });
        }
    }
    analyse(Meta { program: "large".into(), stack_depth: 8, ..Meta::default() }, tables, &events)
}

fn analyse(meta: Meta, tables: Tables, events: &[Event]) -> Recorded {
    let options = ProfileOptions { range_steps: limits::RANGE_STEPS, ..ProfileOptions::default() };
    let (profile, findings) = find(&tables, &mut Slice(events), &options, Default::default())
        .expect("the sample is a legal recording");
    let (events, replays) = (events.to_vec(), Vec::new());
    Recorded {
        meta,
        tables,
        profile,
        findings,
        events,
        replays,
        process: None,
        heaps_at: Vec::new(),
    }
}

struct Generator {
    tables: Tables,
    events: Vec<Event>,
    objects: u64,
    now_ns: u64,
    random: u64,
}

impl Generator {
    fn new() -> Generator {
        let module = |path: &str| Module { path: path.into(), ..Module::default() };
        let tables = Tables {
            stacks: vec![StackNode::default()],
            modules: vec![
                module("/opt/catalogue/bin/catalogue"),
                module("/usr/lib/libpages.so.3"),
                module("/usr/lib/x86_64-linux-gnu/libc.so.6"),
            ],
            processes: vec![
                Process {
                    pid: 4711,
                    executable: "/opt/catalogue/bin/catalogue".into(),
                    ended: Ended::Exited(0),
                    ..Process::default()
                },
                Process {
                    pid: 4712,
                    executable: "/bin/busybox".into(),
                    began: Began::Exec,
                    refused: Some("it is linked statically".into()),
                    ..Process::default()
                },
            ],
            threads: vec![
                Thread { tid: 4711, ..Thread::default() },
                Thread { tid: 4713, name: "serve".into(), ..Thread::default() },
            ],
            ..Tables::default()
        };
        Generator { tables, events: Vec::new(), objects: 0, now_ns: 0, random: 42 }
    }

    fn meta(&self) -> Meta {
        Meta {
            writer: "heaplab".into(),
            program: format!("catalogue --load stock.db --serve '{HOSTILE}'"),
            allocator: "glibc 2.36".into(),
            death_rule: "freed by the program".into(),
            stack_depth: 64,
            events: self.events.len() as u64,
            objects: self.objects,
            duration_ns: self.now_ns,
            began_unix_s: 1_760_000_000,
            architecture: "x86_64".into(),
            ..Meta::default()
        }
    }

    /// The stack of these functions, outermost first: "function@module file:line".
    fn stack(&mut self, functions: &[&str]) -> StackId {
        let mut parent = 0;
        for function in functions {
            let (name, place) = function.rsplit_once('@').unwrap_or((function, "0"));
            let (module, place) = place.split_once(' ').unwrap_or((place, ""));
            let (file, line) = place.rsplit_once(':').map_or((None, 0), |(file, line)| {
                (Some(file.to_owned()), line.parse().unwrap_or(0))
            });
            let frame = Frame {
                module: module.parse().ok(),
                address: 0x1_8f30 + name.len() as u64,
                function: (!name.is_empty()).then(|| name.to_owned()),
                file,
                line,
                inlined_into: None,
            };
            let frame =
                self.tables.frames.iter().position(|known| *known == frame).unwrap_or_else(|| {
                    self.tables.frames.push(frame);
                    self.tables.frames.len() - 1
                }) as u32;
            let node = StackNode { parent, frame };
            parent =
                self.tables.stacks.iter().position(|known| *known == node).unwrap_or_else(|| {
                    self.tables.stacks.push(node);
                    self.tables.stacks.len() - 1
                }) as u32;
        }
        parent
    }

    fn tick(&mut self, ns: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.now_ns += ns / 2 + (self.random >> 33) % ns;
        self.now_ns
    }

    fn alloc(&mut self, stack: StackId, size: u64) -> u64 {
        let time_ns = self.tick(20_000);
        let object = self.objects;
        self.objects += 1;
        self.events.push(Event {
            op: Op::Alloc,
            object,
            size,
            usable: usable(size),
            thread: u32::from(object.is_multiple_of(7)),
            stack,
            time_ns,
            ..Event::default()
        });
        object
    }

    fn realloc(&mut self, object: u64, stack: StackId, size: u64) {
        let time_ns = self.tick(20_000);
        self.events.push(Event {
            op: Op::Realloc,
            object,
            size,
            usable: usable(size),
            stack,
            time_ns,
            flags: Flags::MOVED,
            ..Event::default()
        });
    }

    fn free(&mut self, object: u64) {
        let time_ns = self.tick(6_000);
        let thread = u32::from(object.is_multiple_of(3));
        self.events.push(Event { op: Op::Free, object, time_ns, thread, ..Event::default() });
    }

    fn mark(&mut self, name: &str) {
        let object = self.tables.marks.len() as u64;
        self.tables.marks.push(Mark { name: name.into(), time_ns: self.now_ns, process: None });
        self.events.push(Event { op: Op::Mark, object, time_ns: self.now_ns, ..Event::default() });
    }

    fn sample(&mut self, live_bytes: u64) {
        self.tables.samples.push(Sample {
            time_ns: self.now_ns,
            resident_bytes: 3_400_000 + live_bytes * 11 / 10,
            ..Sample::default()
        });
        let part = |kind, name: &str, stack, bytes| ResidentPart {
            time_ns: self.now_ns,
            kind,
            name: name.into(),
            stack,
            bytes,
            mappings: 1,
            ..ResidentPart::default()
        };
        self.tables.resident.extend([
            part(ResidentKind::Blocks, "", 0, live_bytes),
            part(ResidentKind::Allocator, "", 0, live_bytes / 10),
            part(ResidentKind::Mapped, "", 1, 2_000_000),
            part(ResidentKind::Code, "/usr/bin/catalogue", 0, 1_400_000),
        ]);
    }

    fn run(&mut self) {
        let main = ["_start@0", "__libc_start_main@2", "main@0 main.cc:41"];
        let at = |more: &[&'static str]| [main.as_slice(), more].concat();
        let page = self.stack(&at(&[
            "Catalogue::load@0 catalogue.cc:118",
            "PageCache::fetch@1 cache.c:240",
            "page_alloc@1 cache.c:77",
        ]));
        let index = self.stack(&at(&[
            "Catalogue::load@0 catalogue.cc:131",
            TEMPLATE_NAME_AT,
            "operator new@2",
        ]));
        let row = self.stack(&at(&[
            "Catalogue::load@0 catalogue.cc:118",
            "Row::parse@0 row.cc:52",
            "@1",
        ]));
        let log = self.stack(&at(&["Log::append@0 log.cc:19", HOSTILE_AT]));
        let reply = self.stack(&at(&[
            "Server::run@0 server.cc:200",
            "Server::reply@0 server.cc:310",
            "render@0 render.cc:88",
        ]));
        let header =
            self.stack(&at(&["Server::run@0 server.cc:200", "Header::parse@0 header.cc:12"]));
        let session =
            self.stack(&at(&["Server::run@0 server.cc:214", "Session::open@0 session.cc:33"]));
        let mut pages = Vec::new();
        let mut entries = self.alloc(index, 320);
        let buffer = self.alloc(log, 4_096);
        for turn in 0..LOADED_PAGES {
            pages.push(self.alloc(page, 4_104));
            pages.push(self.alloc(row, 24 + turn % 5 * 16));
            if turn % 8 == 0 {
                pages.push(self.alloc(page, 1_032));
            }
            if turn.is_power_of_two() {
                self.realloc(entries, index, 320 * turn.max(1) * 2);
            }
            if turn % 10 == 0 {
                self.realloc(buffer, log, 4_096 + turn * 64 + 64);
            }
            if turn % 50 == 0 {
                self.sample(turn * 4_300);
            }
        }
        self.mark("loaded");
        for request in 0..REQUESTS {
            let parsed = self.alloc(header, 200 + request % 7 * 8);
            let body = self.alloc(reply, 65_544);
            self.free(body);
            self.free(parsed);
            if request % 40 == 0 {
                self.alloc(session, 520);
            }
            if request % 100 == 0 {
                self.sample(LOADED_PAGES * 4_300);
            }
        }
        self.mark("closing");
        pages.drain(..).for_each(|object| self.free(object));
        self.free(std::mem::take(&mut entries));
        self.sample(900_000);
    }
}

const TEMPLATE_NAME_AT: &str = "std::vector<std::pair<std::string, catalogue::Entry>, std::allocator<std::pair<std::string, catalogue::Entry> > >::_M_realloc_insert@0 stl_vector.h:1210";
const HOSTILE_AT: &str = "</script><img src=x onerror=\"window.hacked=1\"><!--@1";

/// What a fresh glibc gives: a multiple of 16 with its header of 8 bytes, at least 32.
fn usable(size: u64) -> u64 {
    ((size + 8).next_multiple_of(16) - 8).max(24)
}

const CAUTION: &str = "The program read a usable size 12 times, so its requests may depend on the allocator that it was recorded under.";

fn compare(
    heap: &str,
    measure: Measure,
    value: f64,
    low: f64,
    high: f64,
    outcome: Outcome,
) -> Comparison {
    Comparison {
        heap: heap.into(),
        baseline: "glibc".into(),
        measure,
        ratio: Estimate { value, low, high },
        confidence: None,
        widened: None,
        bootstrap: None,
        p_value: None,
        p_adjusted: None,
        nodes: None,
        blocks: 11,
        outcome,
    }
}

fn results() -> Results {
    let heap = |name: &str, version: &str, scale: f64, ns: f64| {
        let curve = (0..60u64).map(|step| {
            let requested_bytes =
                if step < 40 { step * 180_000 } else { 7_000_000 - (step - 40) * 340_000 };
            SpaceMoment {
                event: step * 500,
                requested_bytes,
                resident_bytes: (requested_bytes as f64 * scale) as u64 + 200_000,
                ..SpaceMoment::default()
            }
        });
        let peak = (7_000_000.0 * scale) as u64 + 200_000;
        HeapResult {
            heap: name.into(),
            version: version.into(),
            space: Some(Space {
                peak_resident_bytes: peak,
                end_resident_bytes: peak / 2,
                trimmed_resident_bytes: (name != "mimalloc").then_some(peak / 4),
                peak_committed_bytes: (name != "glibc").then_some(peak * 5 / 4),
                resident_per_requested: peak as f64 / 7_000_000.0,
                cells: 1,
                curve: curve.collect(),
                ..Space::default()
            }),
            time: Some(Time {
                ns_per_event: Estimate { value: ns, low: ns * 0.97, high: ns * 1.03 },
                ..Time::default()
            }),
            ..HeapResult::default()
        }
    };
    let mut broken = HeapResult { heap: "lib:/opt/own.so".into(), ..HeapResult::default() };
    broken.failures.push(CellFailure {
        kind: "space".into(),
        block: 0,
        reason: "ended by signal 11 (SIGSEGV)".into(),
    });
    Results {
        format_version: RESULTS_VERSION,
        workload: Workload { program: "catalogue".into(), ..Workload::default() },
        settings: Settings { touch: Touch::Known, reps: 11, confidence: 0.95, margin: 0.03, ..Settings::default() },
        machine: Machine { processor: "a processor".into(), kernel: "6.1.0".into(), ..Machine::default() },
        heaps: vec![
            heap("glibc", "glibc 2.36", 1.02, 21.4),
            heap("jemalloc", "jemalloc 5.3.1", 1.21, 15.1),
            heap("mimalloc:purge_delay=0", "mimalloc 3.3", 0.97, 21.0),
            broken,
        ],
        comparisons: vec![
            compare("jemalloc", Measure::Space, 1.184, 1.184, 1.184, Outcome::More),
            compare("jemalloc", Measure::Time, 0.706, 0.681, 0.733, Outcome::Less),
            compare("mimalloc:purge_delay=0", Measure::Space, 0.952, 0.941, 0.958, Outcome::Less),
            compare("mimalloc:purge_delay=0", Measure::Time, 0.981, 0.921, 1.044, Outcome::NotShown),
        ],
        canary: None,
        verdict: vec![
            "jemalloc needs 18.4 % more space at peak than glibc.".into(),
            "jemalloc needs 29.4 % less time an event than glibc (95 % interval: 26.7 to 31.9 %).".into(),
            "mimalloc:purge_delay=0 needs 4.8 % less space at peak than glibc; no difference in time is shown.".into(),
        ],
        cautions: vec![CAUTION.into()],
        measured_unix_s: 1_760_000_600,
        earlier: None,
    }
}

/// A replay before the last one, of a heap that the last one left out.
fn earlier_results() -> Results {
    let mut results = results();
    results.measured_unix_s = 1_760_000_100;
    let mut other = results.heaps[1].clone();
    other.heap = "tcmalloc".into();
    other.time = None;
    results.heaps.truncate(1);
    results.heaps.push(other);
    results.comparisons.retain_mut(|comparison| {
        let kept = comparison.heap == "jemalloc" && comparison.measure == Measure::Space;
        comparison.heap = "tcmalloc".into();
        kept
    });
    results.verdict = vec!["tcmalloc needs 18.4 % more space at peak than glibc.".into()];
    results
}
