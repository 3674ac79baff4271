//! Several recordings, one after the other, as one job: one bar, one table. The results of each are
//! kept as soon as they exist.

use crate::results::Measure;
use crate::run::{ExperimentError, Measured, cells, run as run_plan};
use crate::{CellRunner, Plan, Progress, Results, alias, kept_replays, table};
use std::path::{Path, PathBuf};

/// Two recordings have the same name, so their columns and folders could not be told apart.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} names two recordings, whose results could not be told apart: rename one, or replay each by itself"
)]
pub struct SameName(String);

/// The name of a recording among others: its folder's name without `.heaplab`.
pub fn name(path: &Path) -> String {
    path.file_stem()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The names of all recordings.
///
/// # Errors
/// Two have one name.
pub fn names(paths: &[PathBuf]) -> Result<Vec<String>, SameName> {
    let names: Vec<String> = paths.iter().map(|path| name(path)).collect();
    for (place, name) in names.iter().enumerate() {
        if names[..place].contains(name) {
            return Err(SameName(name.clone()));
        }
    }
    Ok(names)
}

/// The result of one recording's replay.
#[derive(Debug)]
pub struct Replayed {
    /// The measurements of this replay.
    pub results: Results,
    /// With those of an earlier replay, where they complete each other ([`kept_replays`]).
    pub with_earlier: Results,
    /// Why the recording does not keep this replay for its report.
    pub unkept: Option<ExperimentError>,
}

/// Runs all `plans`. The heaps of the results have the names in `aliases`.
///
/// # Errors
/// One cannot be run, or the files of its results cannot be written.
pub fn run(
    plans: &[(&Path, Plan)],
    names: &[String],
    aliases: &[(String, String)],
    runner: &dyn CellRunner,
    mut report: impl FnMut(&Progress),
) -> Result<Vec<Replayed>, ExperimentError> {
    let total = plans.iter().map(|(_, plan)| cells(plan)).sum();
    let mut before = 0;
    let mut all = Vec::new();
    for ((path, plan), name) in plans.iter().zip(names) {
        let (mut results, measured) = run_plan(plan, runner, |progress| {
            let now = match plans.len() {
                1 => progress.now.clone(),
                _ => format!("{name}, {}", progress.now),
            };
            report(&Progress { done: before + progress.done, total, now });
        })?;
        before += cells(plan);
        alias::rename(&mut results, aliases);
        all.push(kept(path, plan, results, &measured)?);
    }
    Ok(all)
}

/// Writes the files of one recording's results, and keeps them for its report.
fn kept(
    path: &Path,
    plan: &Plan,
    results: Results,
    measured: &Measured,
) -> Result<Replayed, ExperimentError> {
    if let Some(folder) = &plan.results {
        table::write_folder(folder, &results, measured)?;
    }
    if plan.shard.1 > 1 {
        // A part of the blocks is no verdict.
        return Ok(Replayed { with_earlier: results.clone(), results, unkept: None });
    }
    let missing = match (plan.space, plan.time) {
        (true, false) => Some(Measure::Time),
        (false, true) => Some(Measure::Space),
        _ => None,
    };
    let with_earlier = kept_replays::with_earlier(path, results.clone(), missing);
    // A bundle that cannot be written to is no reason to lose this replay.
    let unkept = kept_replays::keep(path, &with_earlier).err();
    Ok(Replayed { results, with_earlier, unkept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_recording() {
        let of = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            names(&paths).map_err(|error| error.to_string())
        };
        assert_eq!(of(&["a/x.heaplab/", "y.heaplab"]), Ok(vec!["x".into(), "y".into()]));
        assert!(of(&["a/x.heaplab", "b/x.heaplab"]).unwrap_err().starts_with("x names two"));
    }
}
