//! Thirty strategies on five workloads, as one command of `heaplab replay`: the grid's time, and a
//! check that a second run of the same command runs no cell again.
//!
//! Each heap collects when the old generation has grown by V8's percentage under
//! `--predictable-gc-schedule` ([`PACING`]): without full collections no free list has anything to
//! give, and all strategies are equal. Three workloads are recorded programs. The two stated ones
//! have many old deaths, which distinguish strategies.

use crate::bounds::Bounds;
use crate::programs;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Number of strategies: every named one, and two without compaction.
const HEAPS: usize = 30;
/// The `--heap-growing-percent` implied by `--predictable-gc-schedule` (V8's flag-definitions.h).
const PACING: &str = "overhead=30";
/// Bundled recordings.
const RECORDED: [&str; 3] = ["v8/tsc", "v8/splay", "v8/json-cache"];
/// The generated workloads and their names.
const STATED: [(&str, &str); 2] = [
    ("phases", "sizes=web,lifetimes=phase,births=600000,collect=0,seed=3"),
    ("random", "sizes=web,lifetimes=random,slots=100000,births=1000000,collect=0,seed=3"),
];
const MINUTES_MAX: f64 = 15.0;

/// Prints the grid's table and its time.
pub fn measure(folder: &Path, bounds: &mut Bounds) -> Result<()> {
    let named = heaplab_v8::documented::all().into_iter().map(|strategy| strategy.name);
    let still = ["legacy,compact=never", "many,compact=never"].map(String::from);
    let heaps: Vec<String> = named.chain(still).map(|name| format!("v8:{name},{PACING}")).collect();
    ensure!(heaps.len() == HEAPS, "{} strategies, expected {HEAPS}", heaps.len());
    let heaplab = programs::heaplab(None)?;
    let mut workloads: Vec<PathBuf> =
        RECORDED.iter().map(|name| fresh(name, folder)).collect::<Result<_>>()?;
    for (name, statement) in STATED {
        let to = folder.join(name).with_extension("heaplab");
        let output =
            Command::new(&heaplab).args(["generate", statement, "-o"]).arg(&to).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "generate {statement}: {errors}");
        workloads.push(to);
    }
    let grid = || -> Result<(f64, String)> {
        let began = Instant::now();
        let mut command = Command::new(&heaplab);
        command.arg("replay").args(&workloads).args(["--space", "--quiet", "--on"]);
        let output = command.arg(heaps.join(",")).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?}: {errors}");
        Ok((began.elapsed().as_secs_f64() / 60.0, String::from_utf8(output.stdout)?))
    };
    let (first, table) = grid()?;
    let (again, same) = grid()?;
    ensure!(table == same, "a second run of the grid printed something else:\n{same}");
    println!("\n{HEAPS} strategies on {} workloads:\n\n{table}", workloads.len());
    println!("The same command again, whose cells are kept: {:.1} s.", again * 60.0);
    bounds.at_most("a grid of 30 strategies and 5 workloads", first, "min", MINUTES_MAX);
    Ok(())
}

/// A copy of a bundled recording without earlier replays' results.
fn fresh(name: &str, folder: &Path) -> Result<PathBuf> {
    let from = programs::root().join("traces").join(format!("{name}.heaplab"));
    let base = from.file_name().context("a recording has a name")?;
    let to = folder.join(base);
    fs::create_dir(&to)?;
    for entry in fs::read_dir(&from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_file()
            && !entry.file_name().to_string_lossy().starts_with("replay-")
        {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(to)
}
