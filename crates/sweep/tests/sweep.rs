//! A sweep from its plan to its report, on a machine whose times are known.

use heaplab_experiment::CellRunner;
use heaplab_experiment::results::{Measure, Outcome};
use heaplab_experiment::verdict::is_told;
use heaplab_replay::{
    CellKind, CellReport, CellRequest, Families, Of, SpaceReport, SpaceSample, TimeReport,
};
use heaplab_sweep::node::Node;
use heaplab_sweep::plan::Plan;
use heaplab_sweep::{Job, Report, Sweep, SweepError, plot, table};
use heaplab_system::Allocators;
use heaplab_trace::bundle::{BundleWriter, Meta};
use heaplab_trace::tables::{Process, Tables, Thread};
use heaplab_trace::{Event, EventSink, Op};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

const FAMILIES: Families = Families(&[&Of(Allocators)]);

/// A hundred blocks that live to the end.
fn bundle(path: &Path) {
    let mut writer = BundleWriter::create(path).unwrap();
    for object in 0..100 {
        writer.push(&Event { object, size: 64, ..Event::default() }).unwrap();
    }
    writer.push(&Event { op: Op::Free, object: 1, ..Event::default() }).unwrap();
    let mut tables = Tables {
        processes: vec![Process::default()],
        threads: vec![Thread::default()],
        ..Tables::default()
    };
    tables.stacks.push(Default::default());
    tables.arenas.push(Default::default());
    writer.finish(&tables, Meta { program: "app".into(), ..Meta::default() }).unwrap();
}

/// A machine on which jemalloc takes `ratio` times what glibc takes.
struct Machine {
    ratio: f64,
    /// The canary's time, by its number.
    canary_ns: fn(u32) -> u64,
    canaries: Cell<u32>,
    /// Cells that it runs before it is stopped.
    left: Cell<u32>,
}

impl Machine {
    fn of(ratio: f64) -> Machine {
        let (canaries, left) = (Cell::new(0), Cell::new(u32::MAX));
        Machine { ratio, canary_ns: |_| 1000, canaries, left }
    }
}

impl CellRunner for Machine {
    fn run(&self, request: &CellRequest, _: &[(String, String)]) -> Result<CellReport, String> {
        let Some(left) = self.left.get().checked_sub(1) else { return Err("stopped".into()) };
        self.left.set(left);
        let of = |null: u64, glibc: u64, jemalloc: u64| match &*request.heap {
            "null" => null,
            "glibc" => glibc,
            _ => jemalloc,
        };
        Ok(match request.kind {
            CellKind::Canary => {
                let number = self.canaries.get();
                self.canaries.set(number + 1);
                CellReport::Canary { ns: (self.canary_ns)(number) }
            }
            CellKind::Space => {
                let anonymous_bytes = of(0, 8192, 12288);
                let samples = vec![SpaceSample { anonymous_bytes, ..SpaceSample::default() }; 200];
                CellReport::Space(SpaceReport { samples, ..SpaceReport::default() })
            }
            _ => {
                let events = 101_000;
                let jemalloc = (100.0 * self.ratio) as u64;
                let ns = of(10, 110, 10 + jemalloc) * events;
                let passes_ns = vec![ns; request.passes as usize];
                CellReport::Time(TimeReport { passes_ns, ..TimeReport::default() })
            }
        })
    }

    fn is_stopped(&self) -> bool {
        self.left.get() == 0
    }
}

/// A plan in a folder with two recordings, of so many repetitions.
fn plan(folder: &Path, repetitions: u32) -> PathBuf {
    for name in ["a.heaplab", "b.heaplab"] {
        if !folder.join(name).exists() {
            bundle(&folder.join(name));
        }
    }
    let path = folder.join("plan.toml");
    let text = format!(
        "bundles = ['a.heaplab', 'b.heaplab']\nheaps = ['glibc', 'jemalloc']\nrepetitions = {repetitions}\nhuge_pages = 'system'\n"
    );
    fs::write(&path, text).unwrap();
    path
}

fn prepared(path: &Path) -> Sweep {
    let executable = std::env::current_exe().unwrap();
    Sweep::prepare(path, &Plan::read(path).unwrap(), &FAMILIES, &executable, |_| ()).unwrap()
}

fn node(name: &str) -> Node {
    Node::this(Some(name))
}

fn run(sweep: &Sweep, shard: (u32, u32), to: &Path, name: &str, on: &Machine) {
    let jobs: Vec<Job> = sweep.jobs(shard).collect();
    sweep.run(&jobs, to, &node(name), on, |_| ()).unwrap();
}

fn report(folders: &[&Path]) -> Report {
    let folders: Vec<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    Report::read(&folders, |_| ()).unwrap()
}

fn json(report: &Report) -> String {
    serde_json::to_string_pretty(report).unwrap()
}

#[test]
fn shards_are_the_same_as_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let sweep = prepared(&plan(folder.path(), 8));
    let machine = Machine::of(1.5);
    run(&sweep, (0, 1), &at("whole"), "one", &machine);
    for part in 0..3 {
        run(&sweep, (part, 3), &at(&part.to_string()), "one", &machine);
    }
    let whole = report(&[&at("whole")]);
    let parts = report(&[&at("0"), &at("1"), &at("2")]);
    assert_eq!(json(&whole), json(&parts));
    assert_eq!(table::csv(&whole), table::csv(&parts));
    let files = |folder: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        for name in ["a", "b"] {
            let Ok(entries) = fs::read_dir(folder.join(name)) else { continue };
            for entry in entries {
                let entry = entry.unwrap();
                let path = PathBuf::from(name).join(entry.file_name());
                files.push((path, fs::read(entry.path()).unwrap()));
            }
        }
        files.sort();
        files
    };
    let mut of_parts: Vec<_> = (0..3).flat_map(|part| files(&at(&part.to_string()))).collect();
    of_parts.sort();
    assert_eq!(files(&at("whole")), of_parts, "every job's file, byte for byte");
    let comparison = &whole.workloads[0].results.comparisons;
    assert_eq!(comparison[0].measure, Measure::Space);
    assert!((comparison[0].ratio.value - 1.5).abs() < 1e-9, "{comparison:?}");
    assert!((comparison[1].ratio.value - 1.5).abs() < 1e-9, "{comparison:?}");
    assert_eq!((comparison[1].outcome, comparison[1].nodes), (Outcome::More, None));
    assert!(whole.notes.iter().any(|note| note.contains("one node")), "{:?}", whole.notes);
}

#[test]
fn the_picture_has_a_panel_for_each_measure_with_its_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let path = plan(folder.path(), 8);
    let plan = fs::read_to_string(&path).unwrap();
    let picture = |only: &str| {
        let out = folder.path().join(format!("out-{}", only.len()));
        fs::write(&path, format!("{plan}{only}")).unwrap();
        run(&prepared(&path), (0, 1), &out, "one", &Machine::of(1.5));
        plot::picture(&report(&[&out]))
    };
    let (whole, times) = (picture(""), picture("only = 'time'\n"));
    let panels = |text: &str| ["peak resident", "time an event"].map(|panel| text.contains(panel));
    assert_eq!((panels(&whole), panels(&times)), ([true, true], [false, true]));
    let bars = |text: &str| text.matches("jemalloc: 1.500, 1.500 to 1.500").count();
    assert_eq!((bars(&whole), bars(&times)), (4, 2), "a bar a workload and measure");
    let none = fs::read_dir(folder.path().join("out-0/a")).unwrap();
    none.chain(fs::read_dir(folder.path().join("out-0/b")).unwrap())
        .for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
    let nothing = plot::picture(&report(&[&folder.path().join("out-0")]));
    assert!(nothing.contains("Nothing was compared."), "{nothing}");
}

#[test]
fn what_is_interrupted_goes_on_and_nothing_counts_twice() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let sweep = prepared(&plan(folder.path(), 4));
    let jobs: Vec<Job> = sweep.jobs((0, 1)).collect();
    let machine = Machine::of(1.5);
    machine.left.set(30);
    let ended = sweep.run(&jobs, &out, &node("one"), &machine, |_| ()).unwrap_err();
    assert!(ended.to_string().contains("same command continues"), "{ended}");
    let so_far = report(&[&out]);
    let done: u32 = so_far.workloads.iter().map(|one| one.blocks).sum();
    assert!((1..8).contains(&done), "{done} blocks");
    let missing = format!("{} of 8 blocks of times are not there yet.", 8 - done);
    assert!(so_far.notes.contains(&missing), "{:?}", so_far.notes);
    // Jobs with files are not run again: eight blocks of four cells, less the whole ones.
    machine.left.set(1_000);
    run(&sweep, (0, 1), &out, "one", &machine);
    assert_eq!(1_000 - machine.left.get(), (8 - done) * 4);
    let whole = report(&[&out]);
    assert_eq!(whole.workloads.iter().map(|one| one.blocks).sum::<u32>(), 8);
    // The same block of another machine is left out, and said.
    let twice = folder.path().join("twice");
    run(&sweep, (0, 1), &twice, "two", &Machine::of(3.0));
    let both = report(&[&out, &twice]);
    assert!(both.workloads.iter().all(|one| one.blocks == 4), "{}", json(&both));
    assert_eq!(both.workloads[0].results.comparisons, whole.workloads[0].results.comparisons);
    assert_eq!(both.notes.iter().filter(|note| note.contains("is there twice")).count(), 8);
    // More repetitions go on from the same folder.
    let more = prepared(&plan(folder.path(), 6));
    run(&more, (0, 1), &out, "one", &machine);
    assert_eq!(report(&[&out]).workloads[0].planned_blocks, 6);
}

#[test]
fn a_block_whose_canary_left_its_interval_is_void() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let sweep = prepared(&plan(folder.path(), 10));
    let mut machine = Machine::of(1.5);
    machine.canary_ns = |number| if number == 3 { 1200 } else { 1000 + u64::from(number) };
    run(&sweep, (0, 1), &out, "one", &machine);
    let report = report(&[&out]);
    // Jobs go round the workloads: the fourth is the second one's second block.
    assert_eq!(report.workloads[1].void_blocks, [1]);
    assert_eq!(report.workloads[0].void_blocks, [0_u32; 0]);
    assert_eq!((report.nodes[0].blocks, report.nodes[0].void_blocks), (19, 1));
    let times =
        |report: &Report, workload: usize| report.workloads[workload].results.comparisons[1].blocks;
    assert_eq!((times(&report, 0), times(&report, 1)), (10, 9));
    assert!(report.notes.iter().any(|note| note.starts_with("1 of 20 blocks are void")));
    let parquet = folder.path().join("cells.parquet");
    table::write_cells(&[out], &parquet).unwrap();
    assert!(fs::metadata(&parquet).unwrap().len() > 500);
}

#[test]
fn machines_that_differ_are_more_than_their_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = prepared(&plan(folder.path(), 12));
    let run_on = |ratios: [f64; 3], names: [&str; 3]| {
        let folders: Vec<PathBuf> =
            names.iter().map(|name| folder.path().join(format!("{name}-{}", ratios[2]))).collect();
        for part in 0..3 {
            let machine = Machine::of(ratios[part]);
            run(&sweep, (part as u32, 3), &folders[part], names[part], &machine);
        }
        Report::read(&folders, |_| ()).unwrap()
    };
    let alike = run_on([1.5, 1.51, 1.49], ["one", "two", "three"]);
    let differ = run_on([1.05, 1.5, 2.9], ["one", "two", "three"]);
    let time = |report: &Report| report.workloads[0].results.comparisons[1].clone();
    assert_eq!(alike.nodes.len(), 3);
    assert_eq!(time(&alike).nodes.unwrap().nodes, 3);
    assert_eq!(time(&alike).outcome, Outcome::More);
    assert_eq!(time(&differ).outcome, Outcome::NotShown, "{:?}", time(&differ));
    assert!(time(&differ).nodes.unwrap().between > 0.3);
    let sentence = &alike.workloads[0].results.verdict[1];
    assert!(sentence.contains("over 3 machines that differ by"), "{sentence}");
}

#[test]
fn a_time_within_the_drivers_own_has_no_ratio() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = prepared(&plan(folder.path(), 12));
    // glibc takes 100 ns an event more than the driver, jemalloc `ratio` times as much.
    let run_on = |ratio: f64| {
        let to = |part: u32| folder.path().join(format!("{part}-{ratio}"));
        let folders: Vec<PathBuf> = (0..3).map(to).collect();
        for (part, folder) in (0..3).zip(&folders) {
            run(&sweep, (part, 3), folder, &part.to_string(), &Machine::of(ratio));
        }
        let report = Report::read(&folders, |_| ()).unwrap();
        let results = &report.workloads[0].results;
        let times =
            results.comparisons.iter().filter(|compared| compared.measure == Measure::Time).count();
        let said = "a: jemalloc takes less than the driver's own time lets tell (0.1 ns an event)";
        let notes = report.notes.iter().filter(|note| note.starts_with(said)).count();
        (is_told(results, "glibc"), is_told(results, "jemalloc"), times, notes)
    };
    assert_eq!(run_on(0.01), (true, true, 1, 0));
    assert_eq!(run_on(0.0), (true, false, 0, 1));
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = plan(folder.path(), 2);
    let out = folder.path().join("out");
    let sweep = prepared(&path);
    run(&sweep, (0, 1), &out, "one", &Machine::of(1.5));
    let message =
        |error: SweepError| error.to_string().replace(&*folder.path().to_string_lossy(), "T");

    // A node with another binary.
    let other = folder.path().join("other-heaplab");
    fs::write(&other, "another program").unwrap();
    let another =
        Sweep::prepare(&path, &Plan::read(&path).unwrap(), &FAMILIES, &other, |_| ()).unwrap();
    let jobs: Vec<Job> = another.jobs((0, 1)).collect();
    let refused = another.run(&jobs, &out, &node("two"), &Machine::of(1.5), |_| ()).unwrap_err();
    let refused = message(refused);
    assert!(refused.starts_with("T/out: it has blocks of another heaplab ("), "{refused}");

    // Other heaps.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("'jemalloc'", "'jemalloc', 'mimalloc'")).unwrap();
    let wider = prepared(&path);
    let jobs: Vec<Job> = wider.jobs((0, 1)).collect();
    let refused = wider.run(&jobs, &out, &node("one"), &Machine::of(1.5), |_| ()).unwrap_err();
    assert!(message(refused).starts_with("T/out: a: its plan has other heaps;"));

    // An unknown heap, a missing bundle.
    let executable = std::env::current_exe().unwrap();
    let refused = |text: &str| {
        fs::write(&path, text).unwrap();
        let asked = Plan::read(&path).unwrap();
        let early = |name: &str| panic!("{name} is compiled before the plan's mistake is found");
        message(Sweep::prepare(&path, &asked, &FAMILIES, &executable, early).unwrap_err())
    };
    let unknown = refused("bundles = ['a.heaplab']\nheaps = ['gibc']");
    assert!(unknown.starts_with("T/plan.toml: heaps: ") && unknown.contains("gibc"), "{unknown}");
    let missing = refused("bundles = ['a.heaplab', 'c.heaplab']\nheaps = ['glibc']");
    assert_eq!(missing, "T/plan.toml: bundles: T/c.heaplab: no such recording");

    // A damaged block, a folder without a sweep, names that leave the folder.
    let block = out.join("a/block-00001.json");
    let whole = fs::read(&block).unwrap();
    fs::write(&block, &whole[..whole.len() / 2]).unwrap();
    let read = |folder: &Path| message(Report::read(&[folder.to_path_buf()], |_| ()).unwrap_err());
    let damaged = read(&out);
    assert!(damaged.starts_with("T/out/a/block-00001.json: "), "{damaged}");
    assert!(damaged.contains("remove the file"), "{damaged}");
    fs::write(&block, whole).unwrap();
    let none = read(folder.path());
    assert!(none.starts_with("T: no results of heaplab sweep are here"), "{none}");
    let about = fs::read_to_string(out.join("sweep.json")).unwrap();
    let forged = about.replace("\"name\": \"a\"", "\"name\": \"../a\"");
    assert_ne!(about, forged);
    fs::write(out.join("sweep.json"), forged).unwrap();
    assert!(read(&out).contains("is no name of a workload"));
}

#[test]
fn fewer_repetitions_keep_what_the_folder_was_made_for() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let machine = Machine { canary_ns: |number| 1000 << (number % 2), ..Machine::of(1.5) };
    run(&prepared(&plan(folder.path(), 4)), (0, 1), &out, "one", &machine);
    let before = report(&[&out]);
    run(&prepared(&plan(folder.path(), 1)), (0, 1), &out, "one", &machine);
    let after = report(&[&out]);
    assert_eq!(json(&before), json(&after));
    assert_eq!(after.workloads[0].planned_blocks, 4);
    let void: u32 = after.nodes.iter().map(|node| node.void_blocks).sum();
    let said = format!("{void} of 8 blocks are void");
    assert!(void > 0 && after.notes.iter().any(|note| note.starts_with(&said)), "{after:#?}");
}

#[test]
fn what_is_no_file_of_a_sweep_is_told_or_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let sweep = prepared(&plan(folder.path(), 2));
    run(&sweep, (0, 1), &out, "one", &Machine::of(1.5));
    let block = out.join("a/block-00000.json");

    // Somebody's copy under a number that is not written so.
    let before = json(&report(&[&out]));
    fs::copy(&block, out.join("a/block-0.json")).unwrap();
    assert_eq!(before, json(&report(&[&out])));

    // Whoever reads a pipe waits for a writer.
    let refused = || Report::read(std::slice::from_ref(&out), |_| ()).unwrap_err().to_string();
    fs::remove_file(&block).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&block).status().unwrap();
    assert!(made.success());
    assert!(refused().contains("it is no regular file"), "{}", refused());
}
