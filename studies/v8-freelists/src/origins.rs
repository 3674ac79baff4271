//! The sources of allocations in old space: compiled code, the runtime, or the collector.
//!
//! Stock V8 counts no origins. For each collection it prints the promoted bytes and old space
//! afterwards. Between two scavenges old space grows by promotions and by the program's direct
//! allocations there. Without the optimising compiler (`--no-opt`) the same program pretenures
//! nothing, so its direct bytes are the runtime's. The additional bytes with the compiler are
//! generated code's (and the compiler's own tables, which cannot be told apart). Intervals that end
//! with a full collection are left out: old space shrinks there.

use crate::recordings::{Kind, PROGRAMS, Recorded, folder, installed};
use anyhow::{Context, Result};
use std::process::Command;

/// Bytes added to old space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bytes {
    direct: u64,
    promoted: u64,
}

/// Ratio of bytes: generated code : runtime : collector, with the collector's part as 1.
///
/// # Errors
/// Node fails, or its output has another form.
pub fn origins(kind: Kind) -> Result<Option<String>> {
    let Some(node) = installed("node13") else { return Ok(None) };
    let mut parts = Vec::new();
    let (mut generated, mut runtime) = (Vec::new(), Vec::new());
    for program in PROGRAMS.into_iter().filter(|program| program.kind == kind) {
        let compiled = bytes(&node, program, &[])?;
        let interpreted = bytes(&node, program, &["--no-opt"])?;
        let one = compiled.promoted.max(1) as f64;
        let mine = compiled.direct.saturating_sub(interpreted.direct) as f64 / one;
        let its = interpreted.direct.min(compiled.direct) as f64 / one;
        generated.push(mine);
        runtime.push(its);
        parts.push(format!("{} {mine:.2} : {its:.2} : 1", program.name));
    }
    let mean = |values: Vec<f64>| crate::sizes::mean(values.into_iter());
    Ok(Some(format!(
        "mean {:.2} : {:.2} : 1: {}",
        mean(generated),
        mean(runtime),
        parts.join(", ")
    )))
}

fn bytes(node: &std::path::Path, program: Recorded, flags: &[&str]) -> Result<Bytes> {
    let output = Command::new(node)
        .args(["--predictable-gc-schedule", "--no-incremental-marking", "--single-threaded-gc"])
        .args(["--trace-gc", "--trace-gc-nvp", "--trace-gc-verbose"])
        .args(flags)
        .args(["programs/run.cjs", program.name, &program.times.to_string()])
        .current_dir(folder())
        .output()
        .context("starting Node 13.14.0")?;
    anyhow::ensure!(output.status.success(), "Node 13.14.0 failed on {}", program.name);
    parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
        format!("Node 13.14.0 on {}: expected collections as V8 7.9 prints them", program.name)
    })
}

/// Adds up V8's output. A collection is one line of `name=value` pairs and then one line a space;
/// old space's line counts.
fn parse(text: &str) -> Option<Bytes> {
    let mut sum = Bytes::default();
    let (mut before, mut scavenged, mut seen) = (None, None, 0);
    for line in text.lines() {
        if let Some(promoted) = value(line, " promoted=") {
            let is_scavenge = line.contains(" gc=s ");
            scavenged = is_scavenge.then_some(promoted);
        } else if line.contains("] Old space,") {
            let kilobytes: u64 =
                line.split_once("used:")?.1.split_once(" KB")?.0.trim().parse().ok()?;
            let used = kilobytes << 10;
            if let (Some(before), Some(promoted)) = (before, scavenged) {
                sum.promoted += promoted;
                sum.direct += used.saturating_sub(before + promoted);
                seen += 1;
            }
            before = Some(used);
        }
    }
    (seen > 0).then_some(sum)
}

fn value(line: &str, name: &str) -> Option<u64> {
    let (_, rest) = line.split_once(name)?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_old_space_gained_besides_promotions_is_direct() {
        let collection = |kind: &str, promoted: u64, used: u64| {
            format!(
                "[1:0x2]  5 ms: pause=1.0 gc={kind} reduce_memory=0 promoted={promoted} semi_space_copied=7\n\
                 [1:0x2] Old space,              used:  {used:5} KB, available:      0 KB, committed:   1676 KB\n"
            )
        };
        let text = [
            collection("s", 2_048, 100),
            collection("s", 4_096, 110),
            collection("ms", 9_999, 50),
            collection("s", 1_024, 51),
        ]
        .concat();
        assert_eq!(parse(&text), Some(Bytes { direct: 6 << 10, promoted: 5_120 }));
        assert_eq!(parse("nothing"), None);
    }
}
