//! DHAT's JSON (version 2, mode "heap"), for valgrind's viewer.
//!
//! Deviations from valgrind's files: time is nanoseconds instead of instructions (or events, for a
//! trace without times), a reallocation is a request of its own stack (valgrind keeps the block at
//! its stack of birth), and there are no access counts.

use crate::{
    Export, ExportError, InUseAt,
    stacks::{NO_STACK_LABEL, SameStacks, add, functions, return_addresses},
};
use heaplab_profile::Amount;
use heaplab_trace::{StackId, tables::Tables};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashMap},
    io::Write,
};

/// Shorter average lifetimes are highlighted: 10 us, or this many events.
const SHORT_LIFETIME: u64 = 10_000;
const SHORT_LIFETIME_EVENTS: u64 = 1_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    dhat_file_version: u32,
    mode: &'static str,
    verb: &'static str,
    bklt: bool,
    bkacc: bool,
    tu: &'static str,
    #[serde(rename = "Mtu")]
    mtu: &'static str,
    tuth: u64,
    cmd: &'a str,
    pid: u32,
    tg: u64,
    te: u64,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

/// A program point: a stack with total, maximum, at-peak and at-end bytes and blocks.
#[derive(Default, Serialize)]
struct Point {
    tb: u64,
    tbk: u64,
    tl: u64,
    mb: u64,
    mbk: u64,
    gb: u64,
    gbk: u64,
    eb: u64,
    ebk: u64,
    fs: Vec<u32>,
}

#[derive(Default)]
struct Sums {
    requested: Amount,
    at_peak: Amount,
    at_end: Amount,
    most: Amount,
    lifetimes: u128,
}

/// Writes the file.
pub fn write(export: &Export<'_>, out: &mut impl Write) -> Result<(), ExportError> {
    if let InUseAt::Asked(_) = export.moment {
        return Err(ExportError::MomentNotShown(export.moment_name().into()));
    }
    let mut frames = Frames { rows: vec!["[root]".into()], numbers: HashMap::new() };
    let mut pps = Vec::new();
    for (stack, sums) in by_location(export) {
        let fs = frames.stack(export.tables, stack);
        let tl = u64::try_from(sums.lifetimes).unwrap_or(u64::MAX);
        let (total, most, peak, end) = (sums.requested, sums.most, sums.at_peak, sums.at_end);
        let (tb, tbk, mb, mbk) = (total.bytes, total.objects, most.bytes, most.objects);
        pps.push(Point {
            tb,
            tbk,
            tl,
            mb,
            mbk,
            gb: peak.bytes,
            gbk: peak.objects,
            eb: end.bytes,
            ebk: end.objects,
            fs,
        });
    }
    let is_timed = export.detail.is_timed();
    let at = |moment: &heaplab_profile::Moment| if is_timed { moment.time_ns } else { moment.row };
    let file = File {
        dhat_file_version: 2,
        mode: "heap",
        verb: "Allocated",
        bklt: true,
        bkacc: false,
        tu: if is_timed { "ns" } else { "events" },
        mtu: if is_timed { "ms" } else { "Mevents" },
        tuth: if is_timed { SHORT_LIFETIME } else { SHORT_LIFETIME_EVENTS },
        cmd: &export.about.program,
        pid: export.about.pid,
        tg: at(&export.profile.peak),
        te: at(&export.profile.end).max(export.detail.end()),
        pps,
        ftbl: frames.rows,
    };
    Ok(serde_json::to_writer(out, &file)?)
}

/// The sums of every stack. The viewer refuses two points that read the same, so these are joined;
/// the maximum of two joined stacks is at most the sum of both maxima.
fn by_location(export: &Export<'_>) -> BTreeMap<StackId, Sums> {
    let same = SameStacks::of(export.tables);
    let mut points: BTreeMap<StackId, Sums> = BTreeMap::new();
    for row in export.profile.stacks.iter().filter(|row| row.requested.objects > 0) {
        let sums = points.entry(same.first(row.stack)).or_default();
        add(&mut sums.requested, row.requested);
        add(&mut sums.at_peak, row.at_peak);
        add(&mut sums.at_end, row.at_end);
        add(&mut sums.most, export.detail.most(row.stack));
        sums.lifetimes += export.detail.lifetimes(row.stack);
    }
    points
}

/// Texts of frames in valgrind's form: `0x401136: main (app.c:7)`.
struct Frames {
    rows: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Frames {
    /// The frames of a stack, innermost first.
    fn stack(&mut self, tables: &Tables, stack: StackId) -> Vec<u32> {
        let frames = return_addresses(tables, stack).flat_map(|frame| functions(tables, frame));
        let numbers: Vec<u32> = frames.map(|frame| self.number(text(tables, frame))).collect();
        if numbers.is_empty() { vec![self.number(NO_STACK_LABEL.into())] } else { numbers }
    }

    fn number(&mut self, text: String) -> u32 {
        let next = self.rows.len() as u32;
        *self.numbers.entry(text).or_insert_with_key(|text| {
            self.rows.push(text.clone());
            next
        })
    }
}

fn text(tables: &Tables, frame: u32) -> String {
    let label = tables.frame_label(frame);
    let Some(place) = tables.frames.get(frame as usize) else { return label };
    let module = place.module.and_then(|module| tables.modules.get(module as usize));
    let place_text = match (&place.file, module) {
        (Some(file), _) => format!("{file}:{}", place.line),
        (None, Some(module)) => format!("in {}", module.path),
        (None, None) => "in no module".into(),
    };
    format!("{:#x}: {label} ({place_text})", place.address)
}
