//! One recording, reduced for the comparison. Of the tables that grow with a recording, only its
//! distinct stacks and sizes remain.

use crate::names::{Names, Paths};
use hashbrown::HashMap;
use heaplab_findings::{Found, LEAK};
use heaplab_profile::{Amount, Moment, Profile, resident_peak};
use heaplab_report::page::{self, model};
use heaplab_report::{Analysis, Report, Shown};
use heaplab_statistics::median;
use heaplab_trace::bundle::Bundle;
use heaplab_trace::tables::process_label;
use serde::Serialize;
use std::collections::BTreeMap;

/// The counts of a function, a stack, a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Held {
    /// Bytes live at the moment.
    pub(crate) live_bytes: u64,
    /// Objects live then.
    pub(crate) live_objects: u64,
    /// Bytes live at the end.
    pub(crate) end_bytes: u64,
    /// Requests of the run: births and reallocations.
    pub(crate) requests: u64,
    /// Bytes that these asked for.
    pub(crate) requested_bytes: u64,
}

impl Held {
    pub(crate) fn add(&mut self, other: &Held) {
        self.live_bytes += other.live_bytes;
        self.live_objects += other.live_objects;
        self.end_bytes += other.end_bytes;
        self.requests += other.requests;
        self.requested_bytes = self.requested_bytes.saturating_add(other.requested_bytes);
    }
}

/// A number of the whole run. The order is that of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Bytes live at the moment that is compared.
    LiveBytes,
    /// Objects live then.
    LiveObjects,
    /// Usable bytes less requested bytes of these, where measured.
    SlopBytes,
    /// Most resident bytes, where the system was asked.
    ResidentBytes,
    /// Bytes live at the end.
    EndBytes,
    /// Objects born.
    Allocations,
    /// Reallocations.
    Reallocations,
    /// Objects freed before their thread asked for anything else.
    Temporary,
    /// Bytes of all requests.
    RequestedBytes,
    /// Bytes that moving reallocations copied.
    CopiedBytes,
}

/// A finding, without its evidence.
#[derive(Clone, Debug)]
pub(crate) struct FoundHere {
    pub(crate) kind: &'static str,
    pub(crate) function: String,
    pub(crate) title: String,
    /// Bytes by which it ranks: not needed at the peak, or never given back.
    pub(crate) needed_bytes: u64,
    /// Bytes asked for over the run that a change would spare.
    pub(crate) total_bytes: u64,
    /// Whether it is under a thousandth of the peak.
    pub(crate) minor: bool,
    /// The path of its largest stack.
    pub(crate) path: Vec<u32>,
}

/// The recording's description, for a person and in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recorded {
    /// Where it lies.
    pub path: String,
    /// The recorded command.
    pub program: String,
    /// The allocator recorded under; empty: not known.
    pub allocator: String,
    /// Which of its processes was looked at; empty: the only one, or all.
    pub process: String,
    /// Frames kept of each stack; 0: no stacks.
    pub stack_depth: u32,
    /// Events of this process.
    pub events: u64,
    /// When the moment was, in ns.
    pub moment_ns: u64,
    /// Where the recording was cut, a sentence.
    pub cut: Option<String>,
    /// Events lost, each a sentence.
    pub losses: Vec<String>,
}

/// One recording, reduced.
#[derive(Debug)]
pub struct Run {
    pub(crate) recorded: Recorded,
    pub(crate) program_name: String,
    pub(crate) sampled_every_words: u64,
    pub(crate) figures: BTreeMap<Figure, u64>,
    /// Live bytes at each mark, in their order.
    pub(crate) marks: Vec<(String, u64)>,
    /// By path, innermost function first, and by the line of its call.
    pub(crate) stacks: HashMap<Vec<u32>, BTreeMap<u32, Held>>,
    /// By size asked for: requests of the run, and bytes live at the moment.
    pub(crate) sizes: BTreeMap<u64, (u64, u64)>,
    pub(crate) findings: Vec<FoundHere>,
    /// For the page.
    pub(crate) drawn: Drawn,
}

/// The part of one recording that the page draws as a report does.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Drawn {
    pub(crate) recording: model::Recording,
    pub(crate) totals: model::Totals,
    pub(crate) timeline: model::Timeline,
    pub(crate) metaspaces: [u8; 0],
}

/// Reduces recordings, and numbers the functions of all of them.
#[derive(Debug, Default)]
pub struct Reducer {
    pub(crate) names: Names,
}

impl Reducer {
    /// The reduced recording, from an analysis with `shown` as its moment.
    pub fn reduce(&mut self, bundle: &Bundle, analysis: &Analysis, shown: &Shown) -> Run {
        let (tables, meta, profile) = (bundle.tables(), bundle.meta(), &analysis.profile);
        let Shown::At { moment } = shown else {
            return self.reduce(bundle, analysis, &peak_of(analysis));
        };
        let mut paths = Paths::new(tables);
        let stacks = self.stacks(&mut paths, profile, moment);
        // Also leaks that a report sets apart because they came at one time: which do hangs on the
        // run's times, and differs between equal runs.
        let findings = analysis.findings.findings.iter();
        let findings = findings.map(|found| self.found(&mut paths, found)).collect();
        let process = analysis.process.filter(|row| (*row as usize) < tables.processes.len());
        let program = process.or((tables.processes.len() == 1).then_some(0));
        let program_name = program.map_or_else(
            || first_word(&meta.program),
            |row| tables.processes[row as usize].program_name().to_owned(),
        );
        let label = process.filter(|_| tables.processes.len() > 1).map_or(String::new(), |row| {
            format!("{} {program_name}", process_label(&tables.processes, row as usize))
        });
        let page = page::page(&Report::new(bundle, analysis, &Shown::Nothing));
        Run {
            recorded: Recorded {
                path: bundle.path().display().to_string(),
                program: meta.program.clone(),
                allocator: meta.allocator.clone(),
                process: label,
                stack_depth: meta.stack_depth,
                events: profile.totals.events,
                moment_ns: moment.time_ns,
                cut: meta.cut.clone(),
                losses: meta.losses.clone(),
            },
            program_name,
            sampled_every_words: meta.sampled_every_words,
            figures: figures(bundle, analysis, moment),
            marks: (profile.marks.iter())
                .map(|mark| (tables.mark_name(mark.mark as usize), mark.live.bytes))
                .collect(),
            stacks,
            sizes: sizes(profile, moment),
            findings,
            drawn: Drawn {
                recording: page.recording,
                totals: page.totals,
                timeline: page.timeline,
                metaspaces: [],
            },
        }
    }

    /// The counts at `moment` and over the run, by path and line.
    fn stacks(
        &mut self,
        paths: &mut Paths<'_>,
        profile: &Profile,
        moment: &Moment,
    ) -> HashMap<Vec<u32>, BTreeMap<u32, Held>> {
        let mut stacks: HashMap<Vec<u32>, BTreeMap<u32, Held>> = HashMap::new();
        let live: HashMap<u32, Amount> =
            moment.stacks.iter().map(|row| (row.stack, row.live)).collect();
        for row in &profile.stacks {
            let (path, line) = paths.of(&mut self.names, row.stack);
            let live = live.get(&row.stack).copied().unwrap_or_default();
            let held = Held {
                live_bytes: live.bytes,
                live_objects: live.objects,
                end_bytes: row.at_end.bytes,
                requests: row.requested.objects,
                requested_bytes: row.requested.bytes,
            };
            stacks.entry(path).or_default().entry(line).or_default().add(&held);
        }
        stacks
    }

    fn found(&mut self, paths: &mut Paths<'_>, found: &Found) -> FoundHere {
        FoundHere {
            kind: found.kind.name,
            function: crate::names::common(&found.function).to_owned(),
            title: found.title.clone(),
            needed_bytes: found.needed_bytes(),
            // Whether a leak's objects grew with the run, and so can be saved, hangs on the times.
            total_bytes: match found.kind {
                LEAK => found.needed_bytes(),
                _ => found.saving.total_bytes,
            },
            minor: found.minor,
            path: paths.of(&mut self.names, found.stack()).0,
        }
    }
}

/// By size, the requests of the run and the bytes live at `moment`.
fn sizes(profile: &Profile, moment: &Moment) -> BTreeMap<u64, (u64, u64)> {
    let mut sizes: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for row in &profile.sizes {
        let live = match moment.name.as_str() {
            "peak" => row.at_peak.bytes,
            "end" => row.at_end.bytes,
            _ => 0,
        };
        let of = sizes.entry(row.request).or_default();
        of.0 += row.requested.objects;
        of.1 += live;
    }
    for row in &moment.sizes {
        sizes.entry(row.request).or_default().1 += row.live.bytes;
    }
    sizes
}

fn figures(bundle: &Bundle, analysis: &Analysis, moment: &Moment) -> BTreeMap<Figure, u64> {
    let profile = &analysis.profile;
    let totals = &profile.totals;
    let mut figures = BTreeMap::from([
        (Figure::LiveBytes, moment.live.bytes),
        (Figure::LiveObjects, moment.live.objects),
        (Figure::EndBytes, profile.end.live.bytes),
        (Figure::Allocations, totals.allocations),
        (Figure::Reallocations, totals.reallocations),
        (Figure::Temporary, totals.temporary),
        (Figure::RequestedBytes, totals.requested_bytes),
    ]);
    if profile.is_measured() {
        figures.insert(Figure::SlopBytes, moment.live.slop_bytes());
    }
    if let Some(peak) = resident_peak(bundle.tables(), analysis.process) {
        figures.insert(Figure::ResidentBytes, peak.bytes);
    }
    if !bundle.meta().moves_unknown {
        figures.insert(Figure::CopiedBytes, totals.moved_bytes);
    }
    figures
}

fn peak_of(analysis: &Analysis) -> Shown {
    let stacks = analysis.profile.stacks.iter().map(|row| heaplab_profile::MomentStack {
        stack: row.stack,
        live: row.at_peak,
        requested: row.requested,
    });
    let stacks = stacks.collect();
    Shown::At { moment: Moment { stacks, ..analysis.profile.peak.clone() } }
}

/// The program of a command, without its folder.
fn first_word(command: &str) -> String {
    let word = command.split_whitespace().next().unwrap_or_default();
    word.rsplit('/').next().unwrap_or(word).to_owned()
}

/// The middle of whole numbers, rounded away from zero.
pub(crate) fn middle(values: &[u64]) -> u64 {
    let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    median(&values).map_or(0, |value| value.round() as u64)
}
