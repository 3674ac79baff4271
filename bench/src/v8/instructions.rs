//! Instructions, counted: mechanisms alone, and the same workload here and in V8.

use super::callgrind::{self, Cost, Profile};
use super::probe::BLOCK_BYTES;
use super::{NODE, RULES, node, workload};
use crate::bounds::Bounds;
use anyhow::{Context, Result, ensure};
use heaplab_trace::program::Program;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const LINEAR_MAX: f64 = 12.0;

/// A mechanism of both sides, and its functions.
struct Mechanism {
    name: &'static str,
    ours: &'static [&'static str],
    /// In V8 7.9.
    theirs: &'static [&'static str],
    /// Counts only the functions themselves, without their callees.
    own: bool,
}

const MECHANISMS: [Mechanism; 5] = [
    Mechanism {
        name: "allocation in a linear area (V8: PagedSpace::AllocateRaw itself)",
        ours: &[],
        theirs: &["PagedSpace::AllocateRaw"],
        own: true,
    },
    Mechanism {
        name: "refill by a node, the old area given back",
        ours: &["OldGeneration::take_node"],
        theirs: &["PagedSpace::RefillLinearAllocationAreaFromFreeList"],
        own: false,
    },
    Mechanism {
        name: "sweep of a page",
        ours: &["sweeper::sweep_page"],
        theirs: &["Sweeper::RawSweep"],
        own: false,
    },
    Mechanism {
        name: "scavenge",
        ours: &["scavenger::Scavenger>::run", "scavenger::Scavenger::run"],
        theirs: &["internal::Heap::Scavenge()"],
        own: false,
    },
    Mechanism {
        name: "full collection, without later sweeping",
        ours: &["mark_compact::run"],
        theirs: &["internal::Heap::MarkCompact()"],
        own: false,
    },
];

/// Prints both tables.
pub fn measure(births: u64, folder: &Path, bounds: &mut Bounds) -> Result<()> {
    let linear = alone(bounds)?;
    let every = births / 4;
    let program = workload(births, ",slots=20000", folder)?;
    let ours = callgrind::run(&probe(
        "replay",
        &[
            "--heap".into(),
            format!("{RULES},every={every},limit=1g"),
            "--program".into(),
            program.path().display().to_string(),
        ],
    )?)?;
    let spec = |program: Option<&Program>| in_node(folder, every, program);
    let (started, theirs) = (spec(None)?, spec(Some(&program))?);
    println!("\n{births} births, a full collection forced each {every}; instructions of the same");
    println!("workload, and how often ({RULES}; Node {NODE} less its run without births):\n");
    println!("| mechanism | here, each | times | V8, each | times |\n|---|---|---|---|---|");
    for Mechanism { name, ours: our, theirs: their, own } in MECHANISMS {
        let theirs = theirs.cost(their).less(started.cost(their));
        ensure!(theirs.calls > 0, "{name}: no call of V8's {their:?} in the profile");
        if our.is_empty() {
            let each = each(theirs, own);
            println!("| {name} | {linear:.1} | | {each:.1} | {} |", theirs.calls);
            bounds.at_most(&format!("{name}, V8's"), linear, "instructions", each);
            continue;
        }
        let ours = ours.cost(our);
        ensure!(ours.calls > 0, "{name}: no call of {our:?} in the profile, was it inlined?");
        let (mine, real) = (each(ours, own), each(theirs, own));
        println!("| {name} | {mine:.0} | {} | {real:.0} | {} |", ours.calls, theirs.calls);
        bounds.at_most(&format!("{name}, V8's"), mine, "instructions", real);
    }
    let (mine, real) = (ours.total(), theirs.total() - started.total());
    println!(
        "\nAll of a birth, the drivers included: {:.0} here, {:.0} in Node (its driver interpreted)",
        mine as f64 / births as f64,
        real as f64 / births as f64
    );
    Ok(())
}

fn each(cost: Cost, own: bool) -> f64 {
    let instructions = if own { cost.own } else { cost.inclusive };
    instructions as f64 / cost.calls.max(1) as f64
}

/// Mechanisms alone; returns the instructions of an allocation in a linear area.
fn alone(bounds: &mut Bounds) -> Result<f64> {
    let nothing = (counted("nothing", 40_000)? - counted("nothing", 10_000)?) / 30_000.0;
    println!(
        "Instructions, blocks of {BLOCK_BYTES} bytes, less the loop around them ({nothing:.0}):\n"
    );
    println!("| mechanism alone | each |\n|---|---|");
    let row = |name: &str, probe: &str, few: usize, many: usize| -> Result<f64> {
        let each = (counted(probe, many)? - counted(probe, few)?) / (many - few) as f64;
        let each = if probe == "sweep" { each } else { each - nothing };
        println!("| {name} | {each:.1} |");
        Ok(each)
    };
    let linear = row("allocation in a linear area of old space", "linear", 1_000, 4_000)?;
    row("allocation with a refill each, by a node that fits", "refill", 10_000, 40_000)?;
    row("sweep of a page of 2,045 live blocks and as many holes", "sweep", 16, 64)?;
    row("mimalloc, malloc and free", "mimalloc", 10_000, 40_000)?;
    row("mimalloc, malloc of blocks that stay", "mimalloc-kept", 10_000, 40_000)?;
    bounds.at_most("allocation in a linear area", linear, "instructions", LINEAR_MAX);
    Ok(linear)
}

fn counted(name: &str, count: usize) -> Result<f64> {
    Ok(callgrind::run(&probe(name, &["--count".into(), count.to_string()])?)?.total() as f64)
}

fn probe(name: &str, more: &[String]) -> Result<Vec<String>> {
    let this = std::env::current_exe()?.display().to_string();
    let words = [this, "v8".into(), "--probe".into(), name.into()];
    Ok(words.into_iter().chain(more.iter().cloned()).collect())
}

/// Runs a program in the real Node under callgrind: a script takes the Node's place.
fn in_node(folder: &Path, every: u64, program: Option<&Program>) -> Result<Profile> {
    let found = heaplab_node::find::node(&heaplab_node::Spec::parse(&format!("version={NODE}"))?)?;
    let (script, file) = (folder.join("node"), folder.join("node.profile"));
    let words = callgrind::words(&file).join(" ");
    let found = found.display();
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec '{found}' \"$@\"\nexec /usr/bin/env PATH=/usr/bin:/bin {words} '{found}' \"$@\"\n"
    );
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    let spec = format!(
        "version={NODE},strategy=many,compact=never,timeout=7200,every={every},node={}",
        script.display()
    );
    node(&heaplab_node::Spec::parse(&spec)?, program)?;
    let text = std::fs::read_to_string(&file);
    Profile::parse(&text.with_context(|| format!("{}: no profile of Node", file.display()))?)
}
