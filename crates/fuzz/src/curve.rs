//! What `heaplab curve` reads: ranges, braces that a shell has expanded, what runtimes tell of
//! their collections, and a block's file that an experiment goes on behind. The first byte chooses.

use heaplab_curve::cell::{Canary, CellReport};
use heaplab_curve::plan::{CellId, Plan, Settings, variants};
use heaplab_curve::run::{Ended, run as run_plan};
use heaplab_curve::runtimes::{Runtime, Teller};
use heaplab_curve::source::{CellSource, Stopped};
use heaplab_curve::summary::{Asked, summarize};
use heaplab_curve::vary::Vary;
use heaplab_curve::{expanded, markdown, page, svg, table, text};
use std::ffi::OsString;

/// One input.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match kind % 8 {
        0 => range(&text),
        1 => words(&text),
        2 => {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            let _ = expanded::explanation(&words);
        }
        3 => told(Runtime::Ocaml, &text),
        4 => told(Runtime::Go, &text),
        5 => told(Runtime::Jvm, &text),
        6 => told(Runtime::Node, &text),
        _ => resumed(&text),
    }
}

fn range(text: &str) {
    match Vary::of_variable(text) {
        Ok(vary) => has_values(&vary),
        Err(error) => assert!(error.at <= text.chars().count(), "{error}"),
    }
}

fn words(text: &str) {
    let words: Vec<String> = text.split(' ').map(String::from).collect();
    match Vary::of_words(&words) {
        Ok(Some(vary)) => has_values(&vary),
        Ok(None) => {}
        Err(error) => assert!(error.at <= error.text.chars().count(), "{error}"),
    }
}

/// A range is two values at least, and each is written as it stands there.
fn has_values(vary: &Vary) {
    assert!(vary.values.len() >= 2);
    for value in &vary.values {
        assert!(vary.with(value).contains(value.as_str()));
        assert!(!vary.label(value).is_empty());
    }
}

fn told(runtime: Runtime, text: &str) {
    let mut teller = Teller::new(runtime);
    let mut is_heard = false;
    for line in text.lines() {
        is_heard |= teller.line(line);
    }
    let collections = teller.collections();
    assert_eq!(collections.is_some(), is_heard);
    let garbage = collections.and_then(|told| told.garbage_a_cycle());
    assert!(garbage.is_none_or(|bytes| bytes > 0.0 && bytes.is_finite()));
}

/// Nothing is run: an experiment has what its file holds.
struct Stopping;

impl CellSource for Stopping {
    fn run(&self, _: &Plan, _: CellId) -> Result<CellReport, Stopped> {
        Err(Stopped::Interrupted)
    }

    fn canary(&self, _: &Plan) -> Result<Canary, Stopped> {
        Err(Stopped::Interrupted)
    }
}

/// A block's file, with `ID` for the experiment's name. What is read gives results in every form.
fn resumed(text: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let vary = Vary::of_variable("GOGC=25..400x4").expect("a range");
    let variants = variants(&["./{compare}".into()], &vary, &["a".into(), "b".into()]);
    let plan = Plan {
        vary,
        variants: variants.expect("two variants"),
        settings: Settings { reps: 2, confidence: 0.95, default: true, ..Settings::default() },
        runtime: Some(Runtime::Go),
        shard: (0, 1),
        results: Some(folder.path().into()),
        code_version: String::new(),
    };
    let file = folder.path().join("block-00000.json");
    std::fs::write(&file, text.replace("ID", &plan.identity())).expect("a file");
    let measured = run_plan(&plan, &Stopping, |_| {});
    if let Some(Ended::Results(error)) = &measured.ended {
        assert!(error.to_string().contains("block-00000.json"), "{error}");
        return;
    }
    let results = summarize(&plan, &measured, &Asked::default());
    assert!(!text::results(&results, 80).is_empty());
    svg::picture(&results);
    page::html(&results);
    markdown::text(&results);
    table::csv(&plan, &measured.blocks);
    table::parquet(&plan, &measured.blocks).expect("a table");
}
