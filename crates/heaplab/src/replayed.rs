//! The last replay of a recording, kept beside its cells, so that the page of `heaplab report` can show it.

use anyhow::{Context, Result, bail};
use heaplab_experiment::results::{HeapResult, Measure, RESULTS_VERSION, Results, Settings, Workload};
use heaplab_experiment::verdict;
use std::fs;
use std::path::{Path, PathBuf};

/// Results are some kilobytes a heap; what is larger is not one of them.
const LARGEST_BYTES: u64 = 64 << 20;

fn path(bundle: &Path, process: Option<u32>) -> PathBuf {
    let of = process.map_or_else(|| "all".to_owned(), |row| row.to_string());
    bundle.join("replay-cells").join(format!("results-{of}.json"))
}

/// `results`, and of the measure they are `missing` what the last replay found of the same workload on the same heaps, with the
/// same settings, on the same machine: whoever looks at space after time has not unlearnt the time.
pub fn with_earlier(bundle: &Path, results: Results, missing: Option<Measure>) -> Results {
    let kept = path(bundle, results.workload.process);
    match (missing, read(&kept)) {
        (Some(missing), Ok(earlier)) if is_same(&results, &earlier) => merged(results, earlier, missing),
        _ => results,
    }
}

/// Whether two replays can stand beside each other: one with fewer heaps, or another first one, has other comparisons, which are
/// corrected for another number of them.
fn is_same(now: &Results, earlier: &Results) -> bool {
    let same = |results: &Results| {
        let workload = Workload { bundle: String::new(), ..results.workload.clone() };
        let baseline = results.heaps.first().map(|heap| heap.heap.clone());
        let mut heaps: Vec<_> = results.heaps.iter().map(|heap| (heap.heap.clone(), heap.version.clone())).collect();
        heaps.sort();
        let settings = Settings { reps: 0, passes: 0, seed: 0, ..results.settings.clone() };
        (workload, baseline, heaps, results.machine.clone(), settings)
    };
    same(now) == same(earlier)
}

/// `now`, and all that `earlier` has of one measure: figures, comparisons and failures are of one replay.
fn merged(mut now: Results, earlier: Results, missing: Measure) -> Results {
    if !earlier.heaps.iter().any(|heap| is_measured(heap, missing)) {
        return now;
    }
    let kind = if missing == Measure::Time { "time" } else { "space" };
    for heap in &mut now.heaps {
        let Some(old) = earlier.heaps.iter().find(|old| old.heap == heap.heap) else { continue };
        match missing {
            Measure::Time => heap.time = old.time.clone(),
            Measure::Space => heap.space = old.space.clone(),
        }
        heap.failures.extend(old.failures.iter().filter(|failure| failure.kind == kind).cloned());
    }
    now.comparisons.retain(|comparison| comparison.measure != missing);
    now.comparisons.extend(earlier.comparisons.into_iter().filter(|comparison| comparison.measure == missing));
    now.comparisons.sort_by_key(|comparison| comparison.measure == Measure::Time);
    now.earlier = Some(missing);
    let mut how = String::new();
    if missing == Measure::Time {
        let Settings { reps, passes, .. } = earlier.settings;
        how = format!(", in {} of {}", verdict::plural(reps, "block"), verdict::plural(passes, "pass"));
        now.settings = earlier.settings;
        now.canary = earlier.canary;
    }
    now.verdict = verdict::sentences(&now);
    now.cautions = verdict::cautions(&now);
    now.cautions.push(format!("The {kind} was measured by an earlier replay of this recording, on this machine{how}."));
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

    /// What `heaplab replay --space` would find after `both`.
    fn space_of(both: &Results) -> Results {
        let mut space = both.clone();
        space.heaps.iter_mut().for_each(|heap| heap.time = None);
        space.comparisons.retain(|comparison| comparison.measure == Measure::Space);
        space.canary = None;
        space
    }

    #[test]
    fn space_alone_does_not_hide_the_time_that_was_measured_before() {
        let both: Results = serde_json::from_str(include_str!("commands/replay/show/results.json")).unwrap();
        let bundle = tempfile::tempdir().unwrap();
        keep(bundle.path(), &both).unwrap();
        let space = space_of(&both);
        let shown = with_earlier(bundle.path(), space.clone(), Some(Measure::Time));
        assert_eq!((&shown.heaps, &shown.comparisons, &shown.canary), (&both.heaps, &both.comparisons, &both.canary));
        let earlier = shown.verdict.iter().filter(|sentence| sentence.starts_with("Time (measured earlier): "));
        assert_eq!(earlier.count(), 2, "{:?}", shown.verdict);
        assert!(shown.cautions.iter().any(|caution| caution.starts_with("The time was measured by an earlier replay")));
        // What was measured on another machine, with another margin, or of another baseline, does not stand beside this.
        let mut elsewhere = space.clone();
        elsewhere.machine.kernel = "another".into();
        let mut margin = space.clone();
        margin.settings.margin /= 2.0;
        let other = Results { heaps: vec![space.heaps[1].clone()], comparisons: Vec::new(), ..space.clone() };
        for results in [elsewhere, margin, other] {
            assert_eq!(with_earlier(bundle.path(), results.clone(), Some(Measure::Time)), results);
        }
        // Nor does anything stand beside a replay of both.
        assert_eq!(with_earlier(bundle.path(), space.clone(), None), space);
    }

    #[test]
    fn heaps_that_were_not_asked_for_and_figures_of_another_replay_are_not_shown() {
        let both: Results = serde_json::from_str(include_str!("commands/replay/show/results.json")).unwrap();
        let bundle = tempfile::tempdir().unwrap();
        keep(bundle.path(), &both).unwrap();
        let mut space = space_of(&both);
        let gone = space.heaps.pop().unwrap().heap;
        space.comparisons.retain(|comparison| comparison.heap != gone);
        assert_eq!(with_earlier(bundle.path(), space.clone(), Some(Measure::Time)), space);
        // Peaks that this replay found are compared as this replay compared them.
        let mut space = space_of(&both);
        space.heaps[1].space.as_mut().unwrap().peak_resident_bytes *= 2;
        space.comparisons[0].ratio.value *= 2.0;
        let shown = with_earlier(bundle.path(), space.clone(), Some(Measure::Time));
        let of = |results: &Results, measure| results.comparisons.iter().filter(|one| one.measure == measure).cloned().collect::<Vec<_>>();
        assert_eq!(of(&shown, Measure::Space), space.comparisons);
        assert_eq!(of(&shown, Measure::Time), of(&both, Measure::Time));
        // Where all space cells failed, the peaks of an earlier replay do not take their place.
        let mut failed = space_of(&both);
        failed.heaps.iter_mut().for_each(|heap| heap.space = None);
        failed.comparisons.clear();
        let shown = with_earlier(bundle.path(), failed, Some(Measure::Time));
        assert!(shown.heaps.iter().all(|heap| heap.space.is_none()) && of(&shown, Measure::Space).is_empty());
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
