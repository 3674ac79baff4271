//! The last replay of a recording, kept beside its cells, so that the page of `heaplab report` can show it.

use anyhow::{Context, Result, bail};
use heaplab_experiment::results::{RESULTS_VERSION, Results};
use std::fs;
use std::path::{Path, PathBuf};

/// Results are some kilobytes a heap; what is larger is not one of them.
const LARGEST_BYTES: u64 = 64 << 20;

fn path(bundle: &Path, process: Option<u32>) -> PathBuf {
    let of = process.map_or_else(|| "all".to_owned(), |row| row.to_string());
    bundle.join("replay-cells").join(format!("results-{of}.json"))
}

/// Keeps `results` as the last replay of their process; those of an earlier replay are replaced.
///
/// # Errors
/// The bundle cannot be written to.
pub fn keep(bundle: &Path, results: &Results) -> Result<()> {
    Ok(heaplab_experiment::run::write_json(&path(bundle, results.workload.process), results)?)
}

/// The results at `wanted` (a file of `heaplab replay --json`, or a folder of `--results`), or else the last replay of this process.
///
/// # Errors
/// `wanted` cannot be read, is no such file, or is about another process. A kept replay that cannot be read is only warned of.
pub fn load(bundle: &Path, process: Option<u32>, wanted: Option<&Path>) -> Result<Option<Results>> {
    if let Some(wanted) = wanted {
        let file = if wanted.is_dir() { wanted.join("results.json") } else { wanted.to_owned() };
        let results = read(&file)?;
        if results.workload.process != process {
            bail!("{}: a replay of another process than the report's; choose it with --process", file.display());
        }
        return Ok(Some(results));
    }
    let kept = path(bundle, process);
    if !kept.exists() {
        return Ok(None);
    }
    Ok(read(&kept).inspect_err(|error| eprintln!("heaplab: the page has no replay: {error:#}; run heaplab replay again")).ok())
}

fn read(file: &Path) -> Result<Results> {
    let length = fs::metadata(file).with_context(|| format!("{}: cannot read", file.display()))?.len();
    if length > LARGEST_BYTES {
        bail!("{}: {length} bytes; the results of a replay are never that large", file.display());
    }
    let text = fs::read(file).with_context(|| format!("{}: cannot read", file.display()))?;
    let results: Results =
        serde_json::from_slice(&text).with_context(|| format!("{}: not the results of heaplab replay --json", file.display()))?;
    if results.format_version != RESULTS_VERSION {
        bail!("{}: results of version {}, expected {RESULTS_VERSION}", file.display(), results.format_version);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(process: Option<u32>) -> Results {
        let workload = serde_json::json!({ "bundle": "", "program": "p", "allocator": "", "process": process, "events": 1, "objects": 1, "threads": 1,
            "peak_requested_bytes": 1, "end_requested_bytes": 0, "usable_size_reads": 0, "cut": null });
        let settings = serde_json::to_value(heaplab_experiment::results::Settings::default()).unwrap();
        let machine = serde_json::to_value(heaplab_experiment::results::Machine::default()).unwrap();
        serde_json::from_value(
            serde_json::json!({ "format_version": RESULTS_VERSION, "workload": workload, "settings": settings, "machine": machine,
            "heaps": [], "comparisons": [], "canary": null, "verdict": [], "cautions": [] }),
        )
        .unwrap()
    }

    #[test]
    fn the_last_replay_of_a_process_is_found_again() {
        let bundle = tempfile::tempdir().unwrap();
        assert_eq!(load(bundle.path(), None, None).unwrap(), None);
        keep(bundle.path(), &results(Some(1))).unwrap();
        assert_eq!(load(bundle.path(), None, None).unwrap(), None);
        assert_eq!(load(bundle.path(), Some(1), None).unwrap(), Some(results(Some(1))));
    }

    #[test]
    fn a_file_that_is_named_must_be_right() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        fs::write(&file, serde_json::to_vec(&results(None)).unwrap()).unwrap();
        assert_eq!(load(folder.path(), None, Some(folder.path())).unwrap(), Some(results(None)));
        assert!(load(folder.path(), Some(2), Some(&file)).unwrap_err().to_string().contains("another process"));
        fs::write(&file, "{").unwrap();
        assert!(format!("{:#}", load(folder.path(), None, Some(&file)).unwrap_err()).contains("results.json"));
    }

    #[test]
    fn a_damaged_kept_replay_costs_only_itself() {
        let bundle = tempfile::tempdir().unwrap();
        keep(bundle.path(), &results(None)).unwrap();
        fs::write(path(bundle.path(), None), "not json").unwrap();
        assert_eq!(load(bundle.path(), None, None).unwrap(), None);
    }
}
