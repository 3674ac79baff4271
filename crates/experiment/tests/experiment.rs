//! A whole experiment with made-up cells and so with known results: the driver's part is
//! subtracted, the ratio is the true one, failures are reported, blocks are resumed, shards merge.

use heaplab_experiment::results::{HugePages, Measure, Outcome, Settings, Workload};
use heaplab_experiment::{CellRunner, ExperimentError, HeapCell, Plan, run, table};
use heaplab_replay::{CellKind, CellReport, CellRequest, SpaceReport, SpaceSample, TimeReport};
use heaplab_trace::program::{Facts, compile};
use heaplab_trace::source::Slice;
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, Op};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::cell::Cell;
use std::fs::{self, File};
use std::path::Path;

const EVENTS: u64 = 2_000;

/// A program of a thousand blocks of 4 KiB, all live at once.
fn write_program(folder: &Path) -> std::path::PathBuf {
    let mut events: Vec<Event> =
        (0..EVENTS / 2).map(|object| Event { object, size: 4096, ..Event::default() }).collect();
    events.extend((0..EVENTS / 2).map(|object| Event { op: Op::Free, object, ..Event::default() }));
    let path = folder.join("test.program");
    compile(
        &mut Slice(&events),
        &Tables::default(),
        Facts::default(),
        0,
        &path,
        File::create(&path).unwrap(),
    )
    .unwrap();
    path
}

fn plan(folder: &Path, heaps: &[&str]) -> Plan {
    Plan {
        program: write_program(folder),
        workload: Workload {
            events: EVENTS,
            peak_requested_bytes: EVENTS / 2 * 4096,
            ..Workload::default()
        },
        heaps: heaps.iter().map(|name| HeapCell::named(name)).collect(),
        settings: Settings {
            reps: 10,
            passes: 2,
            seed: 1,
            margin: 0.03,
            confidence: 0.95,
            ..Settings::default()
        },
        results: Some(folder.join("results")),
        cache: Some(folder.join("cache")),
        code_version: "test".into(),
        ..Plan::default()
    }
}

/// Cells with known truth: an event costs the driver 5 ns and the heap the number in its name in
/// addition. A block on a busy machine takes longer for all.
#[derive(Default)]
struct MadeUp {
    cells: Cell<u64>,
}

impl CellRunner for MadeUp {
    fn run(
        &self,
        request: &CellRequest,
        _environment: &[(String, String)],
    ) -> Result<CellReport, String> {
        let cell = self.cells.get();
        self.cells.set(cell + 1);
        let (heap_ns, per_block) = match request.heap.as_str() {
            "slow" => (20.0, 5000),
            "quick" => (10.0, 6000),
            "same" => (20.0, 5000),
            "broken" => return Err("it was ended by SIGSEGV (invalid memory reference)".into()),
            _ => (0.0, 0),
        };
        Ok(match request.kind {
            CellKind::Canary => CellReport::Canary { ns: 50_000_000 },
            CellKind::Time => {
                // Up to 1 % of noise that depends on the cell's number.
                let noise = 1.0 + (cell * 7919 % 100) as f64 / 10_000.0;
                let pass = ((5.0 + heap_ns) * noise * EVENTS as f64) as u64;
                CellReport::Time(TimeReport {
                    passes_ns: vec![pass; 2],
                    cpu_ns: 2 * pass,
                    ..TimeReport::default()
                })
            }
            _ => {
                let program = heaplab_trace::program::Program::open(&request.program).unwrap();
                let samples = program.checkpoints().iter().map(|checkpoint| SpaceSample {
                    // The driver itself grows by 1,000 bytes, on every heap.
                    anonymous_bytes: 70_000 + 1_000 + checkpoint.live_objects * per_block,
                    ..SpaceSample::default()
                });
                CellReport::Space(SpaceReport {
                    baseline_bytes: 70_000,
                    samples: samples.collect(),
                    ..SpaceReport::default()
                })
            }
        })
    }
}

#[test]
fn the_truth_comes_out_and_the_driver_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), &["slow", "quick", "same", "broken"]);
    let (results, measured) = run(&plan, &MadeUp::default(), |_| ()).unwrap();
    let time = |name: &str| {
        results
            .heaps
            .iter()
            .find(|heap| heap.heap == name)
            .unwrap()
            .time
            .clone()
            .unwrap()
            .ns_per_event
            .value
    };
    assert!(
        (time("slow") - 20.0).abs() < 0.5 && (time("quick") - 10.0).abs() < 0.5,
        "{:?}",
        results.heaps
    );
    let space = results.heaps[1].space.as_ref().unwrap();
    assert_eq!((space.peak_resident_bytes, space.end_resident_bytes), (6_000_000, 0));
    let outcome = |heap: &str, measure| {
        let found = results
            .comparisons
            .iter()
            .find(|comparison| comparison.heap == heap && comparison.measure == measure);
        found.map(|comparison| comparison.outcome)
    };
    assert_eq!(outcome("quick", Measure::Time), Some(Outcome::Less));
    assert_eq!(outcome("quick", Measure::Space), Some(Outcome::More));
    assert_eq!(outcome("same", Measure::Time), Some(Outcome::Equivalent));
    assert_eq!(outcome("same", Measure::Space), Some(Outcome::Equivalent));
    assert_eq!(outcome("broken", Measure::Time), None);
    assert_eq!(results.heaps[3].failures.len(), 11, "one of space and ten of time");
    let verdict = results.verdict.join("\n");
    assert!(
        verdict.contains("Space: quick needs 20.0 % more than slow (5.72 MiB against 4.77 MiB at the peak; ratio 1.200)."),
        "{verdict}"
    );
    assert!(
        verdict.contains("Time: quick needs 50.") || verdict.contains("Time: quick needs 49."),
        "{verdict}"
    );
    assert!(
        verdict.contains("broken: a space cell failed: it was ended by SIGSEGV (invalid memory reference) (and 10 more)."),
        "{verdict}"
    );
    table::write(&measured, &folder.path().join("cells.parquet")).unwrap();
}

/// Space cells that report their request: 8 MB in huge pages if these are allowed.
struct OfHugePages;

impl CellRunner for OfHugePages {
    fn run(
        &self,
        request: &CellRequest,
        environment: &[(String, String)],
    ) -> Result<CellReport, String> {
        let mut report = MadeUp::default().run(request, environment)?;
        if let CellReport::Space(space) = &mut report
            && request.huge_pages
            && request.heap == "quick"
        {
            for sample in &mut space.samples {
                sample.anonymous_bytes += 8_000_000;
                sample.huge_bytes = 8_000_000;
            }
        }
        Ok(report)
    }
}

#[test]
fn all_heaps_have_one_setting_of_huge_pages_and_the_other_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(folder.path(), &["slow", "quick"]);
    (plan.time, plan.settings.huge_pages) = (false, Some(HugePages::None));
    let peaks = |plan: &Plan| {
        let (results, _) = run(plan, &OfHugePages, |_| ()).unwrap();
        let space = results.heaps[1].space.clone().unwrap();
        let beside = space.other_huge_pages.map(|other| other.peak_resident_bytes);
        (space.peak_resident_bytes, space.peak_huge_page_bytes, beside)
    };
    // A system that never has huge pages has no other setting to measure.
    let has_them = heaplab_experiment::run::machine().huge_pages != "never";
    assert_eq!(peaks(&plan), (6_000_000, 0, has_them.then_some(14_000_000)));
    plan.settings.huge_pages = Some(HugePages::System);
    assert_eq!(peaks(&plan), (14_000_000, 8_000_000, has_them.then_some(6_000_000)));
    // A program that switched them off has them nowhere.
    plan.settings.program_without_huge_pages = true;
    assert_eq!(peaks(&plan), (6_000_000, 0, None));
    for kind in [CellKind::Space, CellKind::Time, CellKind::Canary] {
        assert!(!plan.request("quick", kind).huge_pages, "{kind:?}");
    }
}

#[test]
fn blocks_are_resumed_and_space_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), &["slow", "quick"]);
    let runner = MadeUp::default();
    let (first, _) = run(&plan, &runner, |_| ()).unwrap();
    let cells = runner.cells.get();
    assert_eq!(cells, 3 + 10 * 4);
    fs::remove_file(folder.path().join("results/block-00004.json")).unwrap();
    let (second, _) = run(&plan, &runner, |_| ()).unwrap();
    assert_eq!(runner.cells.get() - cells, 4, "one block is missing");
    assert_eq!(first.heaps[0].space, second.heaps[0].space);
    assert_eq!(second.heaps[0].time.as_ref().unwrap().blocks_ns_per_event.len(), 10);
}

#[test]
fn shards_merge_into_one_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(folder.path(), &["slow", "quick"]);
    plan.shard = (0, 2);
    let (half, _) = run(&plan, &MadeUp::default(), |_| ()).unwrap();
    assert_eq!(half.comparisons[1].blocks, 5);
    assert_eq!(half.comparisons[1].outcome, Outcome::NotShown);
    assert!(
        half.cautions.iter().any(|caution| caution.contains("6 are needed")),
        "{:?}",
        half.cautions
    );
    plan.shard = (1, 2);
    let (whole, _) = run(&plan, &MadeUp::default(), |_| ()).unwrap();
    assert_eq!((whole.comparisons[1].blocks, whole.comparisons[1].outcome), (10, Outcome::Less));
}

/// Changes the JSON of a file.
fn edit(path: &Path, change: impl Fn(&mut serde_json::Value)) {
    let mut value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, serde_json::to_vec(&value).unwrap()).unwrap();
}

#[test]
fn a_damaged_space_cell_is_measured_again_and_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan { time: false, ..plan(folder.path(), &["slow", "quick"]) };
    let runner = MadeUp::default();
    let (first, _) = run(&plan, &runner, |_| ()).unwrap();
    assert_eq!(runner.cells.get(), 3);
    run(&plan, &runner, |_| ()).unwrap();
    assert_eq!(runner.cells.get(), 3, "all are kept");
    let mut writes = plan.clone();
    writes.heaps[1].writes_file = true;
    let again = MadeUp::default();
    run(&writes, &again, |_| ()).unwrap();
    assert_eq!(again.cells.get(), 1, "a cell that writes a file runs each time");
    for kept in fs::read_dir(folder.path().join("cache")).unwrap() {
        edit(&kept.unwrap().path(), |kept| kept["report"]["samples"] = serde_json::json!([]));
    }
    let (second, _) = run(&plan, &runner, |_| ()).unwrap();
    assert_eq!(runner.cells.get(), 6);
    assert_eq!(second.heaps[0].space, first.heaps[0].space);
    for kept in fs::read_dir(folder.path().join("cache")).unwrap() {
        edit(&kept.unwrap().path(), |kept| kept["report"]["baseline_bytes"] = serde_json::json!(1));
    }
    let (third, _) = run(&plan, &runner, |_| ()).unwrap();
    assert_eq!(third.heaps[0].space, first.heaps[0].space);
}

#[test]
fn a_block_that_lacks_something_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), &["slow", "quick"]);
    run(&plan, &MadeUp::default(), |_| ()).unwrap();
    let path = folder.path().join("results/block-00003.json");
    let whole = fs::read(&path).unwrap();
    let refused = || run(&plan, &MadeUp::default(), |_| ()).unwrap_err().to_string();
    edit(&path, |block| block["cells"] = serde_json::json!([]));
    assert!(
        refused().contains("block-00003.json: is not a block's results: expected the cells "),
        "{}",
        refused()
    );
    fs::write(&path, &whole).unwrap();
    let timed = (0..4).find(|cell| plan.order(3)[*cell] == "slow").unwrap();
    edit(&path, |block| {
        block["cells"][timed]["report"]["time"]["passes_ns"] = serde_json::json!([])
    });
    assert!(refused().contains("expected of the cell slow the times of 2 passes"), "{}", refused());
    edit(&path, |block| {
        block["cells"][timed]["report"]["time"]["passes_ns"] = serde_json::json!([u64::MAX, 2])
    });
    assert!(refused().contains("expected of the cell slow the times of 2 passes"), "{}", refused());
    // A second block under this name would count for nothing.
    fs::copy(folder.path().join("results/block-00004.json"), &path).unwrap();
    assert!(refused().contains("block-00003.json: is not a block's results: it holds block 4, whose file is called block-00004.json"));
    fs::write(&path, &whole).unwrap();
    run(&plan, &MadeUp::default(), |_| ()).unwrap();
}

#[test]
fn results_of_another_experiment_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    run(&plan(folder.path(), &["slow", "quick"]), &MadeUp::default(), |_| ()).unwrap();
    let other = plan(folder.path(), &["slow", "same"]);
    let error = run(&other, &MadeUp::default(), |_| ()).unwrap_err();
    assert!(matches!(error, ExperimentError::OtherExperiment(_)), "{error}");
}

/// Every key of the JSON stands in its document, and so does every column of the table.
#[test]
fn what_is_written_is_documented() {
    fn keys(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
        match value {
            serde_json::Value::Object(fields) => fields.iter().for_each(|(key, value)| {
                found.insert(key.clone());
                keys(value, found);
            }),
            serde_json::Value::Array(rows) => rows.iter().for_each(|row| keys(row, found)),
            _ => (),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(folder.path(), &["slow", "quick", "broken"]);
    plan.heaps[0].without_huge_pages = Some("slow:thp=never".into());
    let (mut results, measured) = run(&plan, &MadeUp::default(), |_| ()).unwrap();
    results.earlier = Some(Measure::Time);
    let mut written = std::collections::BTreeSet::new();
    keys(&serde_json::to_value(&results).unwrap(), &mut written);
    table::write(&measured, &folder.path().join("cells.parquet")).unwrap();
    let table = SerializedFileReader::new(File::open(folder.path().join("cells.parquet")).unwrap())
        .unwrap();
    written.extend(
        table
            .metadata()
            .file_metadata()
            .schema_descr()
            .columns()
            .iter()
            .map(|column| column.name().to_owned()),
    );
    let document =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/replay-json.md"))
            .unwrap();
    let estimates = ["value", "low", "high"];
    let named = |key: &String| {
        document.contains(&format!("`{key}`"))
            || estimates.contains(&key.as_str()) && document.contains("`{value, low, high}`")
    };
    let missing: Vec<&String> = written.iter().filter(|key| !named(key)).collect();
    assert!(
        written.len() > 70 && missing.is_empty(),
        "{} fields; not in docs/replay-json.md: {missing:?}",
        written.len()
    );
}

#[test]
fn every_block_has_every_cell_in_an_order_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), &["slow", "quick", "same"]);
    let mut orders: Vec<Vec<&str>> = (0..20).map(|block| plan.order(block)).collect();
    assert_eq!(orders, (0..20).map(|block| plan.order(block)).collect::<Vec<_>>());
    for order in &mut orders {
        assert_eq!(order.len(), 5);
    }
    let first: std::collections::HashSet<&str> = orders.iter().map(|order| order[0]).collect();
    assert!(first.len() >= 4, "{first:?}");
}
