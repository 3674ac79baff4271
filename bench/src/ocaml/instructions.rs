//! Instructions of both sides on the same steps, by activity.
//!
//! Functions that both sides have are the boundaries: `caml_alloc_shr` and its like (ours:
//! `allocate_major`), `sweep_slice`, `mark_slice`, and `caml_empty_minor_heap`; its allocations in
//! the major heap count as allocations only. A sweep's calls into the policy are part of the sweep.
//!
//! The heap begins with as many words as it needs (`h`): valgrind places a process's mappings at
//! rising addresses, the kernel at falling ones, and the runtime's decisions depend on the order of
//! chunks.

use super::{POLICIES, callgrind, generated, theirs};
use crate::bounds::Bounds;
use anyhow::{Context, Result, bail, ensure};
use heaplab_ocamlrt::Driver;
use heaplab_trace::program::Program;
use std::path::Path;
use std::process::Command;

/// Workloads: a mix with random deaths, phases, a queue of one size, and a fragmented heap.
const WORKLOADS: [&str; 4] = [
    "sizes=web,lifetimes=random,slots=20000,collect=0",
    "sizes=octane,lifetimes=phase,collect=0",
    "sizes=fixed:40,lifetimes=queue,slots=30000,collect=0",
    "sizes=uniform:8-4096,lifetimes=cache,slots=8000,collect=0",
];
/// A small minor heap, so that the major heap has much work.
const PARAMETERS: &str = "o=80,s=32k";

/// A side's instructions, by part.
#[derive(Clone, Copy, Debug)]
struct Parts {
    allocations: u64,
    allocate: u64,
    sweep: u64,
    mark: u64,
    /// Less the allocations in it.
    minor: u64,
    all: u64,
}

/// Counts each workload with each policy.
pub fn bench(driver: &Driver, births: u64, bounds: &mut Bounds) -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        bail!("valgrind is not installed, which counts instructions (--births 0: without)");
    }
    println!("instructions a birth, ours / the runtime's (OCaml {})\n", driver.version());
    println!("| workload | policy | allocation | sweep | mark | minor | all three and minor |");
    println!("|---|---|---|---|---|---|---|");
    for workload in WORKLOADS {
        let folder = tempfile::tempdir()?;
        let program = generated(&format!("{workload},births={births}"), folder.path())?;
        for policy in POLICIES {
            let spec = in_one_chunk(&format!("{policy},{PARAMETERS}"), &program)?;
            let (ours, theirs) = both(driver, &spec, &program, folder.path())
                .with_context(|| format!("{workload}, {spec}"))?;
            let column = |of: fn(&Parts) -> u64| {
                let [ours, theirs] = [&ours, &theirs].map(|parts| of(parts) as f64);
                let births = births as f64;
                format!("{:.1} / {:.1}", ours / births, theirs / births)
            };
            println!(
                "| {workload} | {policy} | {} | {} | {} | {} | {} |",
                column(|parts| parts.allocate),
                column(|parts| parts.sweep),
                column(|parts| parts.mark),
                column(|parts| parts.minor),
                column(|parts| parts.all)
            );
            let ratio = |of: fn(&Parts) -> u64| of(&ours) as f64 / of(&theirs) as f64;
            let name = |part| format!("{policy}, {part}, {workload}");
            bounds.at_most(
                &name("allocation"),
                ratio(|parts| parts.allocate),
                "of the runtime's",
                1.0,
            );
            bounds.at_most(&name("sweep"), ratio(|parts| parts.sweep), "of the runtime's", 1.0);
        }
    }
    Ok(())
}

/// The spec with an initial heap that is large enough for the whole program.
fn in_one_chunk(spec: &str, program: &Program) -> Result<String> {
    let mut words = super::ours(spec, program)?.counters.top_heap_words;
    loop {
        let spec = format!("{spec},h={words}");
        if super::ours(&spec, program)?.counters.heap_chunks == 1 {
            return Ok(spec);
        }
        words += words / 16;
    }
}

fn both(driver: &Driver, spec: &str, program: &Program, folder: &Path) -> Result<(Parts, Parts)> {
    let counts = folder.join("callgrind.ours");
    let before = callgrind::before(&counts);
    let cell = Command::new(&before[0])
        .args(&before[1..])
        .arg(std::env::current_exe()?)
        .args(["ocaml", "--cell", spec, "--program"])
        .arg(program.path())
        .output()?;
    ensure!(cell.status.success(), "{}", String::from_utf8_lossy(&cell.stderr));
    let ours: super::Ours = serde_json::from_slice(&cell.stdout)?;
    let ours_counted = callgrind::read(&counts)?;
    let counts = folder.join("callgrind.theirs");
    let run = theirs(&driver.under(callgrind::before(&counts), folder)?, spec, program)?;
    ensure!(ours.report() == run.end, "not the same work: {:?} and {:?}", ours.report(), run.end);
    let theirs_counted = callgrind::read(&counts)?;
    let of = |counted: &callgrind::Counted, names: [&str; 4]| -> Result<Parts> {
        let [allocate, sweep, mark, minor] = names;
        let (allocated, allocations) = counted.within(|name| name.starts_with(allocate))?;
        let part =
            |part: &str| Ok::<_, anyhow::Error>(counted.within(|name| name.starts_with(part))?.0);
        let (sweep, mark) = (part(sweep)?, part(mark)?);
        // The array of slots is allocated outside of a minor collection: one call of many.
        let minor = part(minor)?.saturating_sub(allocated);
        let all = allocated + sweep + mark + minor;
        Ok(Parts { allocations, allocate: allocated, sweep, mark, minor, all })
    };
    let ours = of(&ours_counted, OURS)?;
    let theirs = of(&theirs_counted, THEIRS)?;
    ensure!(
        ours.allocations == theirs.allocations,
        "{} allocations, the runtime {}",
        ours.allocations,
        theirs.allocations
    );
    Ok((ours, theirs))
}

const OURS: [&str; 4] = [
    "heaplab_ocaml::heap::OCaml::allocate_major",
    "heaplab_ocaml::sweep::<impl heaplab_ocaml::heap::OCaml>::sweep_slice",
    "heaplab_ocaml::mark::<impl heaplab_ocaml::heap::OCaml>::mark_slice",
    "heaplab_ocaml::heap::OCaml::empty_minor_heap",
];
const THEIRS: [&str; 4] = ["caml_alloc_shr", "sweep_slice", "mark_slice", "caml_empty_minor_heap"];
