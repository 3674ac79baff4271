//! Several recordings, one after the other, as one job: one bar, one table.

use crate::run::{ExperimentError, Measured, cells, run as run_plan};
use crate::{CellRunner, Plan, Progress, Results};
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

/// Runs all `plans`, and passes the results of each to `done` as soon as they exist.
///
/// # Errors
/// One cannot be run, or `done` fails.
pub fn run<T, E: From<ExperimentError>>(
    plans: &[(&Path, Plan)],
    names: &[String],
    runner: &dyn CellRunner,
    mut report: impl FnMut(&Progress),
    mut done: impl FnMut(&Path, (Results, Measured)) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let total = plans.iter().map(|(_, plan)| cells(plan)).sum();
    let mut before = 0;
    let mut all = Vec::new();
    for ((path, plan), name) in plans.iter().zip(names) {
        let found = run_plan(plan, runner, |progress| {
            let now = match plans.len() {
                1 => progress.now.clone(),
                _ => format!("{name}, {}", progress.now),
            };
            report(&Progress { done: before + progress.done, total, now });
        })?;
        before += cells(plan);
        all.push(done(path, found)?);
    }
    Ok(all)
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
