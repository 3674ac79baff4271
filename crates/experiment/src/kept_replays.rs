//! The replays of a recording, kept beside their cells, so that the page of `heaplab report` can
//! show them.
//!
//! The file keeps a list, the newest first. A replay stays as long as it is the newest that
//! measured some heap's space or time. Each stays whole, with its own comparisons and verdict,
//! because ratios are of heaps that were measured together. So results of two replays are shown one
//! below the other and never mixed. The one exception is two replays of the same heaps, one of
//! space and one of time ([`with_earlier`]); the results then say so.

use crate::results::{HeapResult, Measure, RESULTS_VERSION, Results, Settings, Workload};
use crate::run::{ExperimentError, write_whole};
use crate::verdict;
use heaplab_text::words::{self, plural};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Results take some kilobytes a heap; a larger file is not one of them.
const LARGEST_BYTES: u64 = 64 << 20;
/// What to do about results that are larger: each collection is a row of them.
const ADVICE: &str = "a report reads up to 64 MiB: let the heaps collect less often (every=)";
/// Replays kept of one process.
const KEPT: usize = 8;

/// The content of the file: the replays, the newest first.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    replays: Vec<Results>,
}

fn path(bundle: &Path, process: Option<u32>) -> PathBuf {
    let of = process.map_or_else(|| "all".to_owned(), |row| row.to_string());
    bundle.join("replay-cells").join(format!("replays-{of}.json"))
}

/// `results`, completed by a measure that they lack: the figures of the last replay of the same
/// workload on the same heaps, with the same settings, on the same machine. So a user who measures
/// space after time still sees the time.
pub fn with_earlier(bundle: &Path, results: Results, missing: Option<Measure>) -> Results {
    let Some(missing) = missing else { return results };
    let earlier = read_kept(&path(bundle, results.workload.process)).unwrap_or_default();
    match earlier.into_iter().find(|earlier| {
        is_same(&results, earlier) && earlier.heaps.iter().any(|heap| heap.has(missing))
    }) {
        Some(earlier) => merged(results, earlier, missing),
        None => results,
    }
}

/// Whether two replays can be shown as one. A replay with fewer heaps, or another first one, has
/// other comparisons, corrected for another number.
fn is_same(now: &Results, earlier: &Results) -> bool {
    let same = |results: &Results| {
        let workload = Workload { bundle: String::new(), ..results.workload.clone() };
        let baseline = results.heaps.first().map(|heap| heap.heap.clone());
        let mut heaps: Vec<_> =
            results.heaps.iter().map(|heap| (heap.heap.clone(), heap.version.clone())).collect();
        heaps.sort();
        let settings = Settings { reps: 0, passes: 0, seed: 0, ..results.settings.clone() };
        (workload, baseline, heaps, results.machine.clone(), settings)
    };
    same(now) == same(earlier)
}

/// `now`, and all that `earlier` has of one measure: figures, comparisons and failures are of one
/// replay.
fn merged(mut now: Results, earlier: Results, missing: Measure) -> Results {
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
    now.comparisons
        .extend(earlier.comparisons.into_iter().filter(|comparison| comparison.measure == missing));
    now.comparisons.sort_by_key(|comparison| comparison.measure == Measure::Time);
    now.earlier = Some(missing);
    let mut how = String::new();
    if missing == Measure::Time {
        let Settings { reps, passes, .. } = earlier.settings;
        how = format!(", in {} of {}", plural(reps.into(), "block"), plural(passes.into(), "pass"));
        now.settings = earlier.settings;
        now.canary = earlier.canary;
    }
    now.verdict = verdict::sentences(&now);
    now.cautions = verdict::cautions(&now);
    let when = if earlier.measured_unix_s == 0 {
        String::new()
    } else {
        format!(" ({})", utc(earlier.measured_unix_s))
    };
    now.cautions.push(format!("The {kind} was measured by an earlier replay{when} of this recording, on this machine{how}."));
    now
}

/// `2025-10-09 09:03 UTC`, of seconds since 1970.
fn utc(unix_s: u64) -> String {
    let time = jiff::Timestamp::from_second(i64::try_from(unix_s).unwrap_or(i64::MAX));
    time.map_or_else(
        |_| String::from("unknown"),
        |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

/// Keeps `results` as the last replay of their process, and those earlier ones with measurements
/// that no later one has, as far as there is room. Without room for the last one, its collections
/// and slices are thinned out, and a caution says so.
///
/// # Errors
/// The bundle cannot be written to, or the results are larger than a report reads even so.
pub fn keep(bundle: &Path, results: &Results) -> Result<(), ExperimentError> {
    keep_within(bundle, results, LARGEST_BYTES)
}

fn keep_within(bundle: &Path, results: &Results, most_bytes: u64) -> Result<(), ExperimentError> {
    let file = path(bundle, results.workload.process);
    let mut replays = vec![results.clone()];
    for earlier in read_kept(&file).unwrap_or_default() {
        if replays.len() < KEPT && has_news(&earlier, &replays) {
            replays.push(earlier);
        }
    }
    let mut kept = Kept { replays };
    let of_heap = |heap: &HeapResult| heap.collections.len().max(heap.log.slices.len());
    let mut rows_max = results.heaps.iter().map(of_heap).max().unwrap_or(0);
    loop {
        let bytes = serde_json::to_vec_pretty(&kept)
            .map_err(|error| ExperimentError::io(&file, "write")(error.into()))?;
        if bytes.len() as u64 <= most_bytes {
            return write_whole(&file, &bytes);
        }
        // The oldest makes room.
        if kept.replays.len() > 1 {
            kept.replays.pop();
            continue;
        }
        rows_max /= 2;
        if rows_max == 0 {
            let why = format!("{} bytes of results, and {ADVICE}", bytes.len());
            return Err(ExperimentError::io(&file, "keep")(std::io::Error::other(why)));
        }
        kept.replays = vec![thinned(results.clone(), rows_max)];
    }
}

/// Results with at most `most` collections and slices of each heap, and a caution about each heap
/// that lost some.
fn thinned(mut results: Results, most: usize) -> Results {
    for heap in &mut results.heaps {
        let all = [(heap.collections.len(), "collection"), (heap.log.slices.len(), "slice")];
        thin(&mut heap.collections, most);
        thin(&mut heap.log.slices, most);
        for (count, what) in all.into_iter().filter(|(count, _)| *count > most) {
            results.cautions.push(format!(
                "Of {} of {} only {} are kept here, evenly chosen: all would be more than a \
                 report reads.",
                plural(count as u64, what),
                heap.heap,
                words::count(most as u64),
            ));
        }
    }
    results
}

/// Keeps `most` rows, evenly chosen, the last one among them.
fn thin<T>(rows: &mut Vec<T>, most: usize) {
    let (mut nth, count) = (0, rows.len());
    rows.retain(|_| {
        nth += 1;
        count <= most || nth * most / count > (nth - 1) * most / count
    });
}

/// Whether an earlier replay of the same workload has a figure that none of the `later` ones
/// measured in the same way.
fn has_news(earlier: &Results, later: &[Results]) -> bool {
    let workload =
        |results: &Results| Workload { bundle: String::new(), ..results.workload.clone() };
    let way = |results: &Results| {
        (
            results.settings.touch,
            results.settings.threads,
            results.settings.debug_build,
            results.machine.clone(),
        )
    };
    let alike: Vec<&Results> = later.iter().filter(|later| way(later) == way(earlier)).collect();
    let again = |heap: &HeapResult, measure| {
        alike
            .iter()
            .flat_map(|later| &later.heaps)
            .any(|one| one.heap == heap.heap && one.version == heap.version && one.has(measure))
    };
    let is_news = |heap: &HeapResult| {
        [Measure::Space, Measure::Time]
            .into_iter()
            .any(|measure| heap.has(measure) && !again(heap, measure))
    };
    later.iter().all(|later| workload(later) == workload(earlier))
        && earlier.heaps.iter().any(is_news)
}

/// The results at `wanted` (a file of `heaplab replay --json`, or a folder of `--results`), or else
/// the kept replays of this process, the newest first. Kept replays that cannot be read are none,
/// and the reason goes to `unread`.
///
/// # Errors
/// `wanted` cannot be read, is not such a file, or is about another process.
pub fn load(
    bundle: &Path,
    process: Option<u32>,
    wanted: Option<&Path>,
    unread: impl FnOnce(&KeptError),
) -> Result<Vec<Results>, KeptError> {
    if let Some(wanted) = wanted {
        let path = if wanted.is_dir() { wanted.join("results.json") } else { wanted.to_owned() };
        let results: Results = read(&path)?;
        expect_version(&results, &path)?;
        if results.workload.process != process {
            return Err(KeptError::OtherProcess(path));
        }
        return Ok(vec![results]);
    }
    let kept = path(bundle, process);
    if !kept.exists() {
        return Ok(Vec::new());
    }
    Ok(read_kept(&kept).inspect_err(unread).unwrap_or_default())
}

/// Why results are not there.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The file cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is larger than results are.
    #[error("{}: {bytes} bytes, and {ADVICE}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file holds something else.
    #[error("{}: not the results of heaplab replay --json: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The expectation, and the place.
        source: serde_json::Error,
    },
    /// Results of an older or newer heaplab.
    #[error("{}: results of version {found}, expected {RESULTS_VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Results of another process than the report's.
    #[error("{}: a replay of another process than the report's; choose it with --process", .0.display())]
    OtherProcess(PathBuf),
}

fn read_kept(path: &Path) -> Result<Vec<Results>, KeptError> {
    let kept: Kept = read(path)?;
    kept.replays.iter().try_for_each(|results| expect_version(results, path))?;
    Ok(kept.replays)
}

fn expect_version(results: &Results, path: &Path) -> Result<(), KeptError> {
    if results.format_version != RESULTS_VERSION {
        return Err(KeptError::Version { path: path.into(), found: results.format_version });
    }
    Ok(())
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, KeptError> {
    let unreadable = |source| KeptError::Io { path: path.into(), source };
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    if bytes > LARGEST_BYTES {
        return Err(KeptError::TooLarge { path: path.into(), bytes });
    }
    let text = fs::read(path).map_err(unreadable)?;
    serde_json::from_slice(&text)
        .map_err(|source| KeptError::Malformed { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_heap::Collection;

    fn results(process: Option<u32>) -> Results {
        let workload = serde_json::json!({ "bundle": "", "program": "p", "allocator": "", "process": process, "events": 1, "objects": 1, "threads": 1,
            "peak_requested_bytes": 1, "end_requested_bytes": 0, "usable_size_reads": 0, "cut": null });
        let settings = serde_json::to_value(crate::results::Settings::default()).unwrap();
        let machine = serde_json::to_value(crate::results::Machine::default()).unwrap();
        serde_json::from_value(
            serde_json::json!({ "format_version": RESULTS_VERSION, "workload": workload, "settings": settings, "machine": machine,
            "heaps": [], "comparisons": [], "canary": null, "verdict": [], "cautions": [] }),
        )
        .unwrap()
    }

    fn unexpected(error: &KeptError) {
        panic!("{error}");
    }

    /// The results of `heaplab replay --space` after `both`.
    fn space_of(both: &Results) -> Results {
        let mut space = both.clone();
        space.heaps.iter_mut().for_each(|heap| heap.time = None);
        space.comparisons.retain(|comparison| comparison.measure == Measure::Space);
        space.canary = None;
        space
    }

    #[test]
    fn space_alone_does_not_hide_the_time_that_was_measured_before() {
        let both: Results =
            serde_json::from_str(include_str!("../tests/data/results.json")).unwrap();
        let bundle = tempfile::tempdir().unwrap();
        keep(bundle.path(), &both).unwrap();
        let space = space_of(&both);
        let shown = with_earlier(bundle.path(), space.clone(), Some(Measure::Time));
        assert_eq!(
            (&shown.heaps, &shown.comparisons, &shown.canary),
            (&both.heaps, &both.comparisons, &both.canary)
        );
        let earlier = shown
            .verdict
            .iter()
            .filter(|sentence| sentence.starts_with("Time (measured earlier): "));
        assert_eq!(earlier.count(), 2, "{:?}", shown.verdict);
        assert!(
            shown
                .cautions
                .iter()
                .any(|caution| caution.starts_with("The time was measured by an earlier replay"))
        );
        // Measurements of another machine, another margin or another baseline are not shown
        // together with these.
        let mut elsewhere = space.clone();
        elsewhere.machine.kernel = "another".into();
        let mut margin = space.clone();
        margin.settings.margin /= 2.0;
        let other = Results {
            heaps: vec![space.heaps[1].clone()],
            comparisons: Vec::new(),
            ..space.clone()
        };
        for results in [elsewhere, margin, other] {
            assert_eq!(with_earlier(bundle.path(), results.clone(), Some(Measure::Time)), results);
        }
        // Nor does anything stand beside a replay of both.
        assert_eq!(with_earlier(bundle.path(), space.clone(), None), space);
    }

    #[test]
    fn results_that_a_report_would_not_read_are_not_kept_and_the_oldest_makes_room() {
        let both: Results =
            serde_json::from_str(include_str!("../tests/data/results.json")).unwrap();
        let bundle = tempfile::tempdir().unwrap();
        keep(bundle.path(), &both).unwrap();
        let space = space_of(&both);
        let file = path(bundle.path(), space.workload.process);
        let whole = fs::metadata(&file).unwrap().len();
        // There is room for the newer one alone, whose time the older one has.
        keep_within(bundle.path(), &space, whole).unwrap();
        assert_eq!(read_kept(&file).unwrap(), std::slice::from_ref(&space));
        // Many collections are thinned out.
        let mut many = space.clone();
        let births = 1..=1_000;
        many.heaps[0].collections =
            births.map(|births| Collection { births, ..Collection::default() }).collect();
        keep_within(bundle.path(), &many, 2 * whole + 50_000).unwrap();
        let [thin] = &read_kept(&file).unwrap()[..] else { panic!("one replay") };
        let kept = &thin.heaps[0].collections;
        assert!((50..=500).contains(&kept.len()) && kept.last().unwrap().births == 1_000);
        let said = format!("only {} are kept here", kept.len());
        assert!(thin.cautions.last().unwrap().contains(&said), "{:?}", thin.cautions);
        keep_within(bundle.path(), &space, whole).unwrap();
        let error = keep_within(bundle.path(), &both, 100).unwrap_err().to_string();
        assert!(error.contains("collect less often"), "{error}");
        assert_eq!(read_kept(&file).unwrap(), [space], "what was kept stays");
    }

    #[test]
    fn heaps_that_were_not_asked_for_and_figures_of_another_replay_are_not_shown() {
        let both: Results =
            serde_json::from_str(include_str!("../tests/data/results.json")).unwrap();
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
        let of = |results: &Results, measure| {
            results
                .comparisons
                .iter()
                .filter(|one| one.measure == measure)
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&shown, Measure::Space), space.comparisons);
        assert_eq!(of(&shown, Measure::Time), of(&both, Measure::Time));
        // If all space cells failed, the peaks of an earlier replay do not take their place.
        let mut failed = space_of(&both);
        failed.heaps.iter_mut().for_each(|heap| heap.space = None);
        failed.comparisons.clear();
        let shown = with_earlier(bundle.path(), failed, Some(Measure::Time));
        assert!(
            shown.heaps.iter().all(|heap| heap.space.is_none())
                && of(&shown, Measure::Space).is_empty()
        );
    }

    #[test]
    fn a_replay_of_fewer_heaps_leaves_what_an_earlier_one_measured() {
        let both: Results =
            serde_json::from_str(include_str!("../tests/data/results.json")).unwrap();
        let bundle = tempfile::tempdir().unwrap();
        let kept = || load(bundle.path(), both.workload.process, None, unexpected).unwrap();
        keep(bundle.path(), &both).unwrap();
        let mut fewer = space_of(&both);
        fewer.heaps.truncate(2);
        keep(bundle.path(), &fewer).unwrap();
        assert_eq!(kept(), [fewer.clone(), both.clone()], "each whole, the newest first");
        // A repetition replaces only its earlier self.
        let newer = Results { measured_unix_s: 5, ..fewer.clone() };
        keep(bundle.path(), &newer).unwrap();
        assert_eq!(kept(), [newer, both.clone()]);
        // Results with threads are figures of another kind.
        let mut threads = fewer.clone();
        threads.settings.threads = true;
        keep(bundle.path(), &threads).unwrap();
        assert_eq!(kept().len(), 3);
        // A replay of everything replaces all earlier ones with the same measurements.
        keep(bundle.path(), &both).unwrap();
        assert_eq!(kept(), [both.clone(), threads]);
        // Another workload is another story.
        let mut other = fewer;
        other.workload.events += 1;
        keep(bundle.path(), &other).unwrap();
        assert_eq!(kept(), [other]);
    }

    #[test]
    fn a_time_has_its_date_in_utc() {
        assert_eq!(utc(1_760_000_600), "2025-10-09 09:03 UTC");
    }

    #[test]
    fn the_last_replay_of_a_process_is_found_again() {
        let bundle = tempfile::tempdir().unwrap();
        assert_eq!(load(bundle.path(), None, None, unexpected).unwrap(), []);
        keep(bundle.path(), &results(Some(1))).unwrap();
        assert_eq!(load(bundle.path(), None, None, unexpected).unwrap(), []);
        assert_eq!(load(bundle.path(), Some(1), None, unexpected).unwrap(), [results(Some(1))]);
    }

    #[test]
    fn a_file_that_is_named_must_be_right() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        fs::write(&file, serde_json::to_vec(&results(None)).unwrap()).unwrap();
        assert_eq!(
            load(folder.path(), None, Some(folder.path()), unexpected).unwrap(),
            [results(None)]
        );
        assert!(
            load(folder.path(), Some(2), Some(&file), unexpected)
                .unwrap_err()
                .to_string()
                .contains("another process")
        );
        fs::write(&file, "{").unwrap();
        assert!(
            format!("{:#}", load(folder.path(), None, Some(&file), unexpected).unwrap_err())
                .contains("results.json")
        );
    }

    #[test]
    fn a_damaged_kept_replay_costs_only_itself() {
        let bundle = tempfile::tempdir().unwrap();
        keep(bundle.path(), &results(None)).unwrap();
        fs::write(path(bundle.path(), None), "not json").unwrap();
        let mut unread = String::new();
        let loaded = load(bundle.path(), None, None, |error| unread = error.to_string());
        assert_eq!(loaded.unwrap(), []);
        assert!(unread.contains("not the results of heaplab replay"), "{unread}");
    }
}
