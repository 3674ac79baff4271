//! Real logs, recordings and traces with damage of every kind, and arbitrary bytes. Each reader
//! gives an error or a result in legal order, ends, and takes memory in proportion to its input.
//! `fuzz/` has the same targets; this loop runs wherever the tests run.
//!
//! `HEAPLAB_ANY_INPUT_SECONDS=300 cargo test --release -p heaplab-jvm --test any_input` runs each
//! of them for 300 s. A failing case prints its seed, and `HEAPLAB_ANY_INPUT_SEED=N` runs it alone.

mod damage;
mod memory;

use damage::{Random, damaged, noise, unpacked};
use heaplab_jvm::{At, has_chunks, report};
use heaplab_jvm::{Format, import};
use heaplab_metaspace::old::{jvm_log, recording};
use heaplab_trace::Event;
use heaplab_trace::import::ImportOptions;
use heaplab_trace::order::OrderChecker;
use heaplab_trace::source::Slice;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Cases of each test where no time is given.
const CASES: u64 = 60;
/// No reader needs more processor time for the some ten thousand bytes of a case, even in a debug
/// build.
const PROCESSOR_SECONDS_MAX: u64 = 30;

/// Processor time of this thread, independent of other programs' load.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs `case` on seed after seed.
fn each_seed(name: &str, case: impl Fn(&mut Random)) {
    let number =
        |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = number("HEAPLAB_ANY_INPUT_SECONDS").map(Duration::from_secs);
    let (first, only) = number("HEAPLAB_ANY_INPUT_SEED").map_or((0, false), |seed| (seed, true));
    let began = Instant::now();
    let mut seed = first;
    while seed == first
        || (!only && seconds.map_or(seed < CASES, |seconds| began.elapsed() < seconds))
    {
        let started = processor_time();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| case(&mut Random::new(seed)))) {
            eprintln!("{name}: seed {seed} (HEAPLAB_ANY_INPUT_SEED={seed} runs it alone)");
            resume_unwind(panic);
        }
        let taken = processor_time() - started;
        assert!(
            taken.as_secs() < PROCESSOR_SECONDS_MAX,
            "{name}: seed {seed} took {taken:?} of processor time"
        );
        seed += 1;
    }
    println!("{name}: {} cases in {:?}", seed - first, began.elapsed());
}

/// Imports, and looks at what comes out as a report does.
fn imported(input: &[u8], format: Format, random: &mut Random) {
    let options = ImportOptions { lenient: random.below(2) == 1, ..ImportOptions::default() };
    let peak = memory::peak_of(|| {
        let mut events: Vec<Event> = Vec::new();
        let Ok(imported) = import(input, Some(format), &options, &mut events) else { return };
        let mut checker = OrderChecker::new("imported", &imported.tables);
        for event in &events {
            checker.check(event).expect("an importer gives events in legal order");
        }
        let (rows, tables) = (events.len() as u64, &imported.tables);
        for chunk in &tables.chunks {
            assert!(
                chunk.row <= rows
                    && (chunk.arena as usize) < tables.arenas.len()
                    && (chunk.process as usize) < tables.processes.len()
            );
        }
        if has_chunks(tables) {
            for at in [At::End, At::Peak, At::Row(rows / 2)] {
                let report = report(
                    tables,
                    &mut Slice(&events),
                    random.below(tables.processes.len() as u64) as u32,
                    at,
                )
                .unwrap();
                assert!(!report.statistics.to_string().is_empty());
            }
        }
    });
    // Each row costs some hundred bytes in some tables, and the shortest line that makes one has
    // thirty.
    let limit = 64 * input.len() as u64 + (48 << 20);
    assert!(peak < limit, "{peak} bytes for an input of {}", input.len());
}

#[test]
fn logs_of_elastic_metaspaces() {
    let logs = [
        unpacked(include_bytes!("../data/jvm-log/jdk-17.0.15.log.gz")),
        unpacked(include_bytes!("../data/jvm-log/jdk-25.0.2.log.gz")),
    ];
    each_seed("jvm-log", |random| {
        let log = &logs[random.below(2) as usize];
        let input =
            if random.below(8) == 0 { noise(random, log) } else { damaged(random, log, 2000) };
        imported(&input, Format::Log, random);
    });
}

#[test]
fn metaspace_traces() {
    let traces = [
        unpacked(include_bytes!("../../../../traces/metaspace/churn.trace.gz")),
        unpacked(include_bytes!("../../../../traces/metaspace/jruby.trace.gz")),
    ];
    each_seed("metaspace-trace", |random| {
        let trace = &traces[random.below(2) as usize];
        let input =
            if random.below(8) == 0 { noise(random, trace) } else { damaged(random, trace, 2000) };
        imported(&input, Format::Workload, random);
    });
}

/// A log of JDK 11 or a recording, replayed.
fn replayed(events: Option<Vec<recording::Event>>) {
    let events = events.unwrap_or_default();
    if let Ok((metaspace, _)) = recording::replay(&events) {
        metaspace.check_deep().expect("a sound metaspace");
    }
}

const REPORT: &str = "step,cycle,loaders,used,committed,class_used,class_committed,uptime_ms\nloaded,1,1,10,393216,3,131072,1\n";

#[test]
fn logs_of_the_old_metaspace() {
    let log = unpacked(include_bytes!("../data/jdk-11.0.13.log.gz"));
    each_seed("old-metaspace-log", |random| {
        let input =
            if random.below(8) == 0 { noise(random, &log) } else { damaged(random, &log, 1500) };
        let text = String::from_utf8_lossy(&input);
        let peak = memory::peak_of(|| {
            replayed(jvm_log::convert(&text, REPORT).ok().map(|converted| converted.events))
        });
        assert!(
            peak < 64 * input.len() as u64 + (256 << 20),
            "{peak} bytes for an input of {}",
            input.len()
        );
    });
}

#[test]
fn recordings_of_the_old_metaspace() {
    let recordings = [
        unpacked(include_bytes!("../../../../traces/metaspace/jdk11-churn.txt.gz")),
        unpacked(include_bytes!("../../../../traces/metaspace/jdk11-redefine.txt.gz")),
    ];
    each_seed("old-metaspace-recording", |random| {
        let lines = &recordings[random.below(2) as usize];
        let input = damaged(random, lines, 1500);
        let text = format!("{}\n{}", recording::HEADER, String::from_utf8_lossy(&input));
        let peak = memory::peak_of(|| replayed(recording::parse(&text).ok()));
        assert!(
            peak < 64 * input.len() as u64 + (256 << 20),
            "{peak} bytes for an input of {}",
            input.len()
        );
    });
}
