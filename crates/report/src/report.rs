//! The model of a report: its text, its JSON and its page come from here.

use crate::{Analysis, HeapAt, Saved, Shown};
use heaplab_dark_matter::DarkMatter;
use heaplab_experiment::results::Results;
use heaplab_findings::{Findings, Found};
use heaplab_profile::{ProcessPeak, Profile};
use heaplab_trace::bundle::{Bundle, Meta};
use heaplab_trace::tables::Tables;
use std::path::Path;

/// The sources of a report.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// Where the recording lies.
    pub path: &'a Path,
    /// The recording as a whole.
    pub meta: &'a Meta,
    /// The tables to which its events refer.
    pub tables: &'a Tables,
    /// Row of `processes` that `profile` is about; `None`: all.
    pub process: Option<u32>,
    /// All processes with events, the largest first, where the largest was chosen.
    pub peaks: &'a [ProcessPeak],
    /// The pass's results.
    pub profile: &'a Profile,
    /// Findings, in their order.
    pub findings: &'a Findings,
    /// Blocks that no memory reporter names, where reporters were asked.
    pub dark_matter: Option<&'a DarkMatter>,
    /// The command that tries the advice of a finding, but for its number; empty: none is named.
    pub what_if: &'a str,
    /// Measured savings of tried findings, if requested.
    pub savings: &'a [Saved],
    /// The requested moments.
    pub shown: &'a Shown,
    /// Replays of the same workload on other heaps: the newest first, then those that measured
    /// something that no newer one did.
    pub replays: &'a [Results],
    /// The metaspaces of recorded JVMs: the report's one, or all.
    pub metaspaces: &'a [JvmMetaspace<'a>],
    /// Heaps that ran the workload up to a moment, to be drawn page by page.
    pub heaps_at: &'a [HeapAt],
    /// Whether the page includes lines of the named source files.
    pub with_sources: bool,
}

/// The contents of a JVM's metaspace at a moment.
#[derive(Clone, Copy, Debug)]
pub struct JvmMetaspace<'a> {
    /// Row of `processes`.
    pub process: u32,
    /// The contents.
    pub report: &'a heaplab_jvm::Report,
    /// Its largest wastes.
    pub findings: &'a [Found],
    /// When: "At the end".
    pub moment: &'a str,
}

impl<'a> Report<'a> {
    /// The command that tries the advice of the finding with this number; empty: none is named.
    pub fn what_if_of(&self, number: usize) -> String {
        if self.what_if.is_empty() { String::new() } else { format!("{}{number}", self.what_if) }
    }

    /// The end of the process, or of the recording: the process may run on after its last event.
    pub(crate) fn end_ns(&self) -> u64 {
        let process = self.process.and_then(|row| self.tables.processes.get(row as usize));
        // Nobody knows what a cut recording's program did then.
        if self.meta.cut.is_some() {
            return self.profile.totals.duration_ns;
        }
        let ended_ns = process.and_then(|process| process.ended_ns);
        ended_ns.unwrap_or(self.meta.duration_ns).max(self.profile.totals.duration_ns)
    }

    /// The result of the finding with this number, if it was tried.
    pub fn saving_of(&self, number: usize) -> Option<&'a Saved> {
        self.savings.iter().find(|saved| saved.finding == number)
    }

    /// The report of one look at a recording, without replays, metaspaces and a heap.
    pub fn new(bundle: &'a Bundle, analysis: &'a Analysis, shown: &'a Shown) -> Report<'a> {
        Report {
            path: bundle.path(),
            meta: bundle.meta(),
            tables: bundle.tables(),
            process: analysis.process,
            peaks: &analysis.peaks,
            profile: &analysis.profile,
            findings: &analysis.findings,
            dark_matter: analysis.dark_matter.as_ref(),
            what_if: "",
            savings: &[],
            shown,
            replays: &[],
            metaspaces: &[],
            heaps_at: &[],
            with_sources: false,
        }
    }
}
