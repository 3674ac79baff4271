//! The saving of a change as one HTML page: the words of the text, each heap's ratios with their
//! intervals, and its resident bytes over both replays.

use super::WhatIf;
use super::view::{View, space_of};
use crate::page::{SHARED_SCRIPTS, STYLE, composed, model, ratio_row, space_row};
use heaplab_experiment::results::{HeapResult, Measure, Space};
use heaplab_experiment::verdict::has_ratio;
use serde::Serialize;
use std::path::Path;

const TEMPLATE: &str = include_str!("../../assets/what-if.html");
/// The plots of ratios and of replays are those of a report's page.
const SCRIPTS: [&str; 2] =
    [include_str!("../../assets/replay.js"), include_str!("../../assets/what-if.js")];

#[derive(Serialize)]
struct Page<'a> {
    writer: &'static str,
    recording: &'a str,
    /// The changed bundle.
    bundle: &'a str,
    /// The baseline of ratios.
    baseline: &'static str,
    heaps: Vec<Heap>,
    #[serde(flatten)]
    view: View,
}

#[derive(Serialize)]
struct Heap {
    name: String,
    before: Option<model::ReplaySpace>,
    after: Option<model::ReplaySpace>,
    space_ratio: Option<model::Ratio>,
    time_ratio: Option<model::Ratio>,
    /// ns of a run, as recorded and changed.
    run_ns: Option<[f64; 2]>,
}

impl WhatIf {
    /// The whole page as one HTML file.
    pub fn page(&self) -> String {
        let recording = &self.origin.bundle;
        let page = Page {
            writer: concat!("heaplab ", env!("CARGO_PKG_VERSION")),
            recording,
            bundle: &self.bundle,
            baseline: "the recorded program",
            heaps: self.replay.after.heaps.iter().map(|heap| self.heap(heap)).collect(),
            view: self.view(),
        };
        let data =
            serde_json::to_string(&page).expect("numbers, strings and lists always become JSON");
        let name = Path::new(recording).file_name().unwrap_or_default().to_string_lossy();
        let scripts = [&SHARED_SCRIPTS[..], &SCRIPTS].concat();
        composed(TEMPLATE, &format!("{name}, what if"), &[STYLE], &scripts, &data)
    }

    fn heap(&self, heap: &HeapResult) -> Heap {
        let replay = &self.replay;
        let space =
            |space: Option<&Space>| space.filter(|space| !space.resident_unknown).map(space_row);
        let ratio = |measure| {
            let of = replay.comparison(&heap.heap, measure);
            of.filter(|of| has_ratio(of, &replay.after)).map(ratio_row)
        };
        let runs = replay.runs.iter().find(|runs| runs.heap == heap.heap);
        Heap {
            name: heap.heap.clone(),
            before: space(space_of(&replay.before, &heap.heap)),
            after: space(heap.space.as_ref()),
            space_ratio: ratio(Measure::Space),
            time_ratio: ratio(Measure::Time),
            // A time that cannot be told from the driver's own is 0.
            run_ns: runs.map(|runs| [runs.before_ns.max(0.0), runs.after_ns.max(0.0)]),
        }
    }
}
