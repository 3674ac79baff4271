//! Positions of the closures of a one-line script: with line ends computed once, and once a closure
//! as in V8 before 11.5.130.

use crate::bounds::Bounds;
use crate::measure::Spread;
use anyhow::Result;
use heaplab_snapshot::generate::{
    Description, EdgeSink, Embedder, GeneratorOptions, NameSink, Position, Positions, generate,
};
use heaplab_snapshot::write::node_type;
use heaplab_text::words::count;

/// A root, and closures one behind the other in one line.
struct OneLine {
    closures: u64,
    source: Vec<u8>,
}

const CLOSURE: &[u8] = b"a.push(function(){return 12345678});";

impl Embedder for OneLine {
    fn root(&mut self) -> u64 {
        0
    }

    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64)) {
        if object == 0 {
            (1..=self.closures).for_each(visit);
        }
    }

    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description {
        let name = names.intern(b"");
        Description {
            node_type: node_type::CLOSURE,
            name,
            id: object * 2 + 1,
            self_size: 64,
            trace_node_id: 0,
            detachedness: 0,
        }
    }

    fn references(&mut self, object: u64, edges: &mut impl EdgeSink) {
        if object == 0 {
            (1..=self.closures).for_each(|closure| edges.element(closure, closure));
        }
    }

    fn position(&mut self, object: u64) -> Option<Position> {
        (object > 0).then(|| Position::Offset {
            script: 1,
            offset: (object - 1) * CLOSURE.len() as u64 + 7,
        })
    }

    fn scripts(&self) -> Vec<u64> {
        vec![1]
    }

    fn script_source(&self, script: u64) -> Option<&[u8]> {
        (script == 1).then_some(&self.source)
    }
}

impl OneLine {
    fn new(closures: u64) -> OneLine {
        OneLine { closures, source: CLOSURE.repeat(closures as usize) }
    }

    /// CPU time of this many generations, ms each.
    fn generation_ms(&mut self, positions: Positions, runs: usize) -> Result<f64> {
        let start_ns = crate::measure::cpu_ns()?;
        for _ in 0..runs {
            generate(
                self,
                std::io::sink(),
                GeneratorOptions { positions, ..GeneratorOptions::default() },
            )?;
        }
        Ok((crate::measure::cpu_ns()? - start_ns) as f64 / 1e6 / runs as f64)
    }
}

/// Rounds with a turn for each size, and closures that a turn generates in all: some 0.1 s.
const ROUNDS: usize = 41;
const CLOSURES_A_TURN: u64 = 1 << 20;

/// Makes the C library keep the memory that a generation frees. From some size on it returns memory
/// to the system: 32 k closures alone would pay for the same pages again in each generation (271
/// faults, a fifteenth of the time), fewer closures never.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_freed_memory() {
    // SAFETY: both calls only set numbers of the allocator, before this benchmark has other
    // threads.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep_freed_memory() {}

pub fn run(bounds: &mut Bounds) -> Result<()> {
    keep_freed_memory();
    let sizes = [4, 8, 16, 32].map(|thousands| thousands * 1024);
    let mut heaps = sizes.map(OneLine::new);
    let mut once = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        for (heap, times) in heaps.iter_mut().zip(&mut once) {
            times.push(heap.generation_ms(
                Positions::OncePerScript,
                (CLOSURES_A_TURN / heap.closures) as usize,
            )?);
        }
    }
    println!("A one-line script: CPU time of a generation, ms, in {ROUNDS} rounds\n");
    println!(
        "| closures in one line | line ends once | once a closure, as V8 before the fix |\n|---|---|---|"
    );
    for (heap, times) in heaps.iter_mut().zip(&once) {
        let median_ms = Spread::of(times.iter().copied()).median;
        // Quadratic: beyond 16 k it would take a minute.
        let each = if heap.closures <= 16 * 1024 {
            count(heap.generation_ms(Positions::PerFunction, 1)? as u64)
        } else {
            "-".to_owned()
        };
        println!("| {} | {median_ms:.2} | {each} |", count(heap.closures));
    }
    let ratios = once[3].iter().zip(&once[2]).map(|(double, single)| double / single);
    bounds.median_at_most("a one-line script, 16 k to 32 k closures", ratios, "times", 2.2);
    Ok(())
}
