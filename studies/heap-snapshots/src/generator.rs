//! Both fixes, switched one by one in heaplab's own generator.
//!
//! The heap is the document's production program at its worst: one line of script with thousands of
//! functions, and as many properties with numbers as names. The first phase requests the names, as
//! in V8. Times are this thread's CPU time, which other work on the machine changes little. The
//! work that the fixes save is counted beside them, and the counts are the same in every run.

use anyhow::Result;
use heaplab_snapshot::generate::{
    Description, EdgeSink, Embedder, GeneratorOptions, NameSink, Position, Positions, generate,
};
use heaplab_snapshot::names::Hash;
use heaplab_snapshot::write::{edge_type, node_type};
use heaplab_text::words::count;
use rustix::time::{ClockId, clock_gettime};
use std::io::{Result as Written, Write};
use std::time::Duration;

const FUNCTIONS: u64 = 8_000;
const NUMERIC_NAMES: u64 = 100_000;
const ROOT: u64 = 0;
const TABLE: u64 = 1;
const FIRST_FUNCTION: u64 = 2;
const SCRIPT: u64 = 7;
const FUNCTION_SOURCE: &str = "function a(b,c){return b+c}";

/// A minified program: functions of one line, and a table keyed by numbers.
struct Minified {
    source: Vec<u8>,
}

impl Embedder for Minified {
    fn root(&mut self) -> u64 {
        ROOT
    }

    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64)) {
        match object {
            ROOT => (TABLE..FIRST_FUNCTION + FUNCTIONS).for_each(visit),
            TABLE => {
                (0..NUMERIC_NAMES).for_each(|number| visit(FIRST_FUNCTION + number % FUNCTIONS))
            }
            _ => {}
        }
    }

    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description {
        let (node_type, name) = match object {
            ROOT => (node_type::SYNTHETIC, names.intern(b"")),
            TABLE => (node_type::OBJECT, names.intern(b"Object")),
            _ => (node_type::CLOSURE, names.intern(format!("f{object}").as_bytes())),
        };
        Description {
            node_type,
            name,
            id: object * 2 + 1,
            self_size: 32,
            trace_node_id: 0,
            detachedness: 0,
        }
    }

    fn references(&mut self, object: u64, edges: &mut impl EdgeSink) {
        match object {
            ROOT => {
                (TABLE..FIRST_FUNCTION + FUNCTIONS).for_each(|target| edges.element(target, target))
            }
            TABLE => {
                for number in 0..NUMERIC_NAMES {
                    edges.named(
                        edge_type::PROPERTY,
                        number.to_string().as_bytes(),
                        FIRST_FUNCTION + number % FUNCTIONS,
                    );
                }
            }
            _ => {}
        }
    }

    fn position(&mut self, object: u64) -> Option<Position> {
        let function = object.checked_sub(FIRST_FUNCTION)?;
        Some(Position::Offset { script: SCRIPT, offset: function * FUNCTION_SOURCE.len() as u64 })
    }

    fn scripts(&self) -> Vec<u64> {
        vec![SCRIPT]
    }

    fn script_source(&self, _script: u64) -> Option<&[u8]> {
        Some(&self.source)
    }
}

/// Runs of each; the shortest counts, because other work on the machine only makes them longer.
const RUNS: usize = 3;

/// Processor time of this thread.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Discards the file and notes its beginning, which ends generation. A writer keeps its first 64
/// KiB for itself: some thousand nodes.
#[derive(Default)]
struct Beginning(Option<Duration>);

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> Written<usize> {
        self.0.get_or_insert_with(processor_time);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Written<()> {
        Ok(())
    }
}

/// The work of a generation: CPU time, slots of the table looked at, bytes of source looked at.
#[derive(Clone, Copy, Debug)]
struct Taken {
    time: Duration,
    slots: u64,
    source_bytes: u64,
}

fn run(hash: Hash, positions: Positions) -> Result<Taken> {
    let mut taken = Taken { time: Duration::MAX, slots: 0, source_bytes: 0 };
    for _ in 0..RUNS {
        let mut heap = Minified { source: FUNCTION_SOURCE.repeat(FUNCTIONS as usize).into_bytes() };
        let options = GeneratorOptions { hash, positions, names_in_generation: true };
        let before = processor_time();
        let (sink, profile) = generate(&mut heap, Beginning::default(), options)?;
        let generation = sink.0.unwrap_or_else(processor_time).saturating_sub(before);
        taken = Taken {
            time: taken.time.min(generation),
            slots: profile.generation_names.probes,
            source_bytes: profile.source_bytes,
        };
    }
    Ok(taken)
}

/// Generation with both fixes, without one of them, and with neither.
pub fn switched() -> Result<String> {
    let neither = run(Hash::V8Original, Positions::PerFunction)?;
    let hash_alone = run(Hash::V8Shifted, Positions::PerFunction)?;
    let lines_alone = run(Hash::V8Original, Positions::OncePerScript)?;
    let both = run(Hash::V8Shifted, Positions::OncePerScript)?;
    let ours = run(Hash::Mixed, Positions::OncePerScript)?;
    let part = |taken: Taken| {
        format!("{:.1} %", taken.time.as_secs_f64() * 100.0 / neither.time.as_secs_f64())
    };
    Ok(format!(
        "generation, of that without the fixes: hash alone {}, line ends alone {}, both {}, both with our hash {}; \
         slots looked at: {} without the fix, {} with it, {} with our hash; bytes of source: {} and {}",
        part(hash_alone),
        part(lines_alone),
        part(both),
        part(ours),
        count(neither.slots),
        count(both.slots),
        count(ours.slots),
        count(neither.source_bytes),
        count(both.source_bytes)
    ))
}
