//! Positions of the closures of a one-line script: line ends computed once, and once a closure as V8 did before 11.5.130.

use super::row;
use anyhow::Result;
use heaplab_snapshot::generate::{Description, EdgeSink, Embedder, NameSink, Options, Position, Positions, generate};
use heaplab_snapshot::write::node_type;

/// A root and closures that stand behind each other in one line.
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
        Description { node_type: node_type::CLOSURE, name, id: object * 2 + 1, self_size: 64, trace_node_id: 0, detachedness: 0 }
    }

    fn references(&mut self, object: u64, edges: &mut impl EdgeSink) {
        if object == 0 {
            (1..=self.closures).for_each(|closure| edges.element(closure, closure));
        }
    }

    fn position(&mut self, object: u64) -> Option<Position> {
        (object > 0).then(|| Position::Offset { script: 1, offset: (object - 1) * CLOSURE.len() as u64 + 7 })
    }

    fn scripts(&self) -> Vec<u64> {
        vec![1]
    }

    fn script_source(&self, script: u64) -> Option<&[u8]> {
        (script == 1).then_some(&self.source)
    }
}

/// Generation, ms: the least of some runs.
fn generation_ms(closures: u64, positions: Positions, runs: usize) -> Result<f64> {
    let mut heap = OneLine { closures, source: CLOSURE.repeat(closures as usize) };
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let (_, profile) = generate(&mut heap, std::io::sink(), Options { positions, ..Options::default() })?;
        least = least.min(profile.generation().as_secs_f64() * 1e3);
    }
    Ok(least)
}

pub fn run() -> Result<()> {
    println!("A one-line script: generation, ms");
    println!("{:>9} {:>12} {:>16}", "closures", "once", "once a closure");
    let mut once = Vec::new();
    for thousands in [4, 8, 16, 32] {
        let closures = thousands * 1024;
        once.push(generation_ms(closures, Positions::OncePerScript, 7)?);
        // Quadratic: beyond 16 k it takes a minute.
        let each = if thousands <= 16 { format!("{:.0}", generation_ms(closures, Positions::PerFunction, 1)?) } else { "-".to_owned() };
        println!("{closures:>9} {:12.2} {each:>16}", once[once.len() - 1]);
    }
    row("16 k to 32 k closures", once[3] / once[2], "times", 2.2);
    Ok(())
}
