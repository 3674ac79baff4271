//! `heaplab curve RECORDING --on HEAPS`: the lab's own heaps in place of a command.

use super::{Args, exit_code, find_minimum, measure_all, named, settings, show_curves};
use crate::commands::replay;
use crate::heaps::{self, FAMILIES};
use crate::misasked::Misasked;
use anyhow::{Context, Result};
use heaplab_curve::lab::Replays;
use heaplab_curve::plan::{Plan, TimeMeasure, VARIANTS_MAX, Variant};
use heaplab_curve::summary::Asked;
use heaplab_curve::vary::Vary;
use heaplab_experiment::results::{Settings as ReplaySettings, Workload};
use heaplab_experiment::{Plan as Replay, Processes, prepare, process};
use heaplab_heap::name;
use heaplab_record::interrupts;
use heaplab_terminal::bus::{self, Mapped};
use heaplab_trace::bundle::Bundle;
use heaplab_trace::program::Program;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the command on the recording at `path`.
pub fn run(args: &Args, path: &Path) -> Result<ExitCode> {
    bus::is_an_error(Mapped::Program);
    let mut plan = plan(args)?;
    let (bundle, program) = replay::workload(path, args.process.as_deref())?;
    let specs =
        Replays::heaps(&FAMILIES, &plan).map_err(|error| Misasked(format!("--vary: {error:#}")))?;
    let executable = std::env::current_exe().context("cannot find this program's own file")?;
    prepare::are_ready(&specs, &program, &executable)?;
    let code_version = prepare::code_version(&specs, &program, &executable)?;
    // What is replayed, and how, is a part of what results must agree on.
    plan.code_version = format!("{code_version} {:?} {:?}", args.touch, args.huge_pages);
    let replay = replay_plan(args, path, &bundle, &program, code_version);
    let asked = Asked {
        command: path.display().to_string(),
        vary: args.vary.clone().unwrap_or_default(),
        budget: args.budget.clone(),
        workload: Some(replay.workload.clone()),
    };
    let (ended, signal) = interrupts::flagged(|stop| {
        let arguments = vec![String::from("replay"), String::from("--cell")];
        let limit = Duration::from_secs_f64(args.timeout);
        let runner = Processes { executable, arguments, limit, stop: None };
        let source = Replays::new(FAMILIES, replay, runner, stop);
        if args.min_heap {
            return find_minimum(args, &plan, &source);
        }
        show_curves(args, &plan, measure_all(&plan, &source), &asked)
    });
    exit_code(ended, signal)
}

/// The heaps as variants of one word each, and the parameter as their variable.
fn plan(args: &Args) -> Result<Plan> {
    let Some(text) = &args.vary else {
        misasked!("nothing is varied: name a parameter of the heaps, --vary overhead=20..320x10")
    };
    let vary = Vary::of_variable(text).map_err(|error| Misasked(format!("--vary: {error}")))?;
    if args.time == Some(TimeMeasure::Wall) {
        misasked!("--time wall: of heaps the time is the processor's (cpu)");
    }
    let on = args.on.as_deref().unwrap_or_default();
    let heaps = heaps::parse_list(on).map_err(|error| Misasked(format!("--on: {error:#}")))?;
    if heaps.len() > VARIANTS_MAX {
        misasked!("--on: {} heaps: a comparison has at most {VARIANTS_MAX}", heaps.len());
    }
    let parameter = vary.name().unwrap_or("");
    for name in name::list(on) {
        if name.parameters.iter().any(|(key, _)| key == parameter) {
            misasked!("--on: {}: {parameter} is varied and cannot be given, too", name.text);
        }
    }
    let variants = heaps.iter().map(|heap| {
        let name = heap.to_string();
        Variant { name: name.clone(), words: vec![name], ..Variant::default() }
    });
    Ok(Plan {
        variants: named(variants.collect(), &args.command_name)?,
        vary,
        settings: settings(args, TimeMeasure::Cpu, process::last_processor().into_iter().collect()),
        runtime: None,
        shard: args.shard.unwrap_or((0, 1)),
        results: args.results.clone(),
        code_version: String::new(),
    })
}

/// How a cell is replayed.
fn replay_plan(
    args: &Args,
    path: &Path,
    bundle: &Bundle,
    program: &Program,
    code_version: String,
) -> Replay {
    let settings = ReplaySettings {
        touch: args.touch,
        reps: args.reps,
        passes: 1,
        seed: args.seed,
        confidence: 0.95,
        debug_build: cfg!(debug_assertions),
        huge_pages: Some(args.huge_pages),
        program_without_huge_pages: prepare::is_without_huge_pages(bundle, program),
        ..ReplaySettings::default()
    };
    Replay {
        program: program.path().to_path_buf(),
        workload: Workload::of(program, path, bundle.meta().duration_ns),
        heaps: Vec::new(),
        settings,
        space: true,
        time: true,
        verify: false,
        shard: (0, 1),
        results: None,
        cache: Some(bundle.path().join("replay-cells")),
        code_version,
        core: process::last_processor(),
    }
}
