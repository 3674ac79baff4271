//! The last replay of a recording, kept beside its cells, so that the page of `heaplab report` can show it.

use anyhow::{Context, Result, bail};
use heaplab_experiment::results::{HeapResult, Measure, RESULTS_VERSION, Results, Workload};
use heaplab_experiment::verdict;
use std::fs;
use std::path::{Path, PathBuf};

/// Results are some kilobytes a heap; what is larger is not one of them.
const LARGEST_BYTES: u64 = 64 << 20;

fn path(bundle: &Path, process: Option<u32>) -> PathBuf {
    let of = process.map_or_else(|| "all".to_owned(), |row| row.to_string());
    bundle.join("replay-cells").join(format!("results-{of}.json"))
}

/// `results`, and of what they did not measure what the last replay of the same workload on the same machine did: whoever looks at
/// space after time has not unlearnt the time.
pub fn with_earlier(bundle: &Path, results: Results) -> Results {
    let kept = path(bundle, results.workload.process);
    match read(&kept) {
        Ok(earlier) if kept.exists() => merged(results, earlier),
        _ => results,
    }
}

fn merged(mut now: Results, earlier: Results) -> Results {
    let same = |results: &Results| {
        let workload = Workload { bundle: String::new(), ..results.workload.clone() };
        let baseline = results.heaps.first().map(|heap| heap.heap.clone());
        (workload, baseline, results.machine.clone(), results.settings.touch, results.settings.threads)
    };
    let has = |results: &Results, measure| results.heaps.iter().any(|heap| is_measured(heap, measure));
    let missing: Vec<Measure> =
        [Measure::Space, Measure::Time].into_iter().filter(|measure| !has(&now, *measure) && has(&earlier, *measure)).collect();
    if missing.is_empty() || same(&now) != same(&earlier) {
        return now;
    }
    for old in &earlier.heaps {
        match now.heaps.iter_mut().find(|heap| heap.heap == old.heap) {
            Some(heap) if heap.version == old.version && missing.contains(&Measure::Time) => heap.time = old.time.clone(),
            Some(heap) if heap.version == old.version => heap.space = old.space.clone(),
            Some(_) => {}
            None => now.heaps.push(old.clone()),
        }
    }
    for comparison in earlier.comparisons {
        let known = now.comparisons.iter().any(|other| other.heap == comparison.heap && other.measure == comparison.measure);
        let stands = |heap: &HeapResult| heap.heap == comparison.heap && is_measured(heap, comparison.measure);
        if !known && now.heaps.iter().any(stands) {
            now.comparisons.push(comparison);
        }
    }
    now.comparisons.sort_by_key(|comparison| comparison.measure == Measure::Time);
    if missing.contains(&Measure::Time) {
        now.settings = earlier.settings;
        now.canary = earlier.canary;
    }
    now.verdict = verdict::sentences(&now);
    now.cautions = verdict::cautions(&now);
    let what = if missing.contains(&Measure::Time) { "The time was" } else { "The space was" };
    now.cautions.push(format!("{what} measured by an earlier replay of this recording, on this machine."));
    now
}

fn is_measured(heap: &HeapResult, measure: Measure) -> bool {
    match measure {
        Measure::Space => heap.space.is_some(),
        Measure::Time => heap.time.is_some(),
    }
}

/// Keeps `results` as the last replay of their process, in place of an earlier one.
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
    fn space_alone_does_not_hide_the_time_that_was_measured_before() {
        let both: Results = serde_json::from_str(include_str!("commands/replay/show/results.json")).unwrap();
        let bundle = tempfile::tempdir().unwrap();
        keep(bundle.path(), &both).unwrap();
        let mut space = both.clone();
        space.heaps.iter_mut().for_each(|heap| heap.time = None);
        space.heaps.pop();
        space.comparisons.retain(|comparison| comparison.measure == Measure::Space && comparison.heap == space.heaps[1].heap);
        space.canary = None;
        let shown = with_earlier(bundle.path(), space.clone());
        assert_eq!((&shown.heaps, &shown.comparisons, &shown.canary), (&both.heaps, &both.comparisons, &both.canary));
        assert!(shown.verdict.iter().filter(|sentence| sentence.starts_with("Time: ")).count() == 2, "{:?}", shown.verdict);
        assert!(shown.cautions.iter().any(|caution| caution.starts_with("The time was measured by an earlier replay")));
        // What was measured on another machine, or of another baseline, does not stand beside this.
        let mut elsewhere = space.clone();
        elsewhere.machine.kernel = "another".into();
        assert_eq!(with_earlier(bundle.path(), elsewhere.clone()), elsewhere);
        let other = Results { heaps: vec![space.heaps[1].clone()], comparisons: Vec::new(), ..space };
        assert_eq!(with_earlier(bundle.path(), other.clone()), other);
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
