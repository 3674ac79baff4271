//! `heaplab curve RECORDING --on HEAPS`: the lab's own heaps in place of a command.

use super::{Args, find_minimum, measure_all, question, show_curves};
use crate::commands::{interrupted, own_file, replay};
use crate::heaps::{self, FAMILIES};
use crate::usage_error::UsageError;
use anyhow::Result;
use heaplab_curve::lab::Replays;
use heaplab_curve::summary::Asked;
use heaplab_experiment::Plan as Replay;
use heaplab_experiment::own_heaps::cells;
use heaplab_experiment::prepare::{self, How};
use heaplab_terminal::bus::{self, Mapped};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the command on the recording at `path`.
pub fn run(args: &Args, path: &Path) -> Result<ExitCode> {
    bus::is_an_error(Mapped::Program);
    let on = args.on.as_deref().unwrap_or_default();
    let heaps = heaps::on(on)?;
    let mut plan = question(args).of_heaps(&heaps, on)?;
    let (bundle, program) = replay::workload(path, args.process.as_deref())?;
    let specs = Replays::heaps(&FAMILIES, &plan)
        .map_err(|error| UsageError(format!("--vary: {error:#}")))?;
    let executable = own_file()?;
    prepare::are_ready(&specs, &program, &executable)?;
    let (touch, huge_pages) = (args.touch, args.huge_pages);
    // No margin: heaplab compares curves, not these cells.
    let how =
        How { touch, threads: false, reps: args.reps, seed: args.seed, margin: 0.0, huge_pages };
    let replay = Replay::of(&bundle, &program, &specs, &executable, &how)?;
    // Kept results count only for the same workload and settings.
    plan.code_version = format!("{} {touch:?} {huge_pages:?}", replay.code_version);
    let asked = Asked {
        command: path.display().to_string(),
        vary: args.vary.clone().unwrap_or_default(),
        budget: args.budget.clone(),
        workload: Some(replay.workload.clone()),
    };
    interrupted(|stop| {
        let runner = cells(executable, Duration::from_secs_f64(args.timeout), None);
        let source = Replays::new(FAMILIES, replay, runner, stop);
        if args.min_heap {
            return find_minimum(args, &plan, &source);
        }
        show_curves(args, &plan, measure_all(&plan, &source, args.quiet), &asked)
    })
}
