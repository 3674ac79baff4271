//! CPU time of a long workload, collections included, beside the real Node.

use super::{NODE, RULES, node, workload};
use crate::bounds::Bounds;
use crate::measure::{self, Spread};
use anyhow::Result;
use std::path::Path;
use std::process::{Command, Stdio};

const RATIO_MAX: f64 = 0.5;

/// Prints the table. Our figure is a whole process, driver and start included; Node's is without
/// its start and the driver's settling.
pub fn measure(births: u64, reps: usize, folder: &Path, bounds: &mut Bounds) -> Result<()> {
    let program = workload(births, ",slots=100000", folder)?;
    let spec = format!("version={NODE},strategy=many,compact=never,timeout=7200");
    let spec = heaplab_node::Spec::parse(&spec)?;
    println!("\n{births} births, CPU seconds of the process, collections included:\n");
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..reps {
        let start = node(&spec, None)?.cpu_ns;
        let all = node(&spec, Some(&program))?.cpu_ns;
        let real = (all - start) as f64 / 1e9;
        let used = measure::run(
            Command::new(std::env::current_exe()?)
                .args(["v8", "--probe", "replay", "--heap", RULES, "--program"])
                .arg(program.path())
                .stdout(Stdio::null()),
        )?;
        ours.push(used.cpu_s);
        theirs.push(real);
        ratios.push(used.cpu_s / real);
    }
    println!("| heap | median | least to most |\n|---|---|---|");
    for (name, seconds) in [("v8:many", ours), ("Node 13.14.0, many", theirs)] {
        let Spread { median, least, most } = Spread::of(seconds);
        println!("| {name} | {median:.2} | {least:.2} to {most:.2} |");
    }
    bounds.median_at_most("replay, CPU of the real Node's", ratios, "times", RATIO_MAX);
    Ok(())
}
