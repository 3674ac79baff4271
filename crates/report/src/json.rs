//! `report --json`: everything that the report knows, for a machine (docs/report-json.md).

use crate::{JvmMetaspace, Report, Saved, Shown, frames};
use heaplab_dark_matter::DarkMatter;
use heaplab_findings::Found;
use heaplab_profile::{KindsAt, ProcessPeak, Profile, ResidentParts, ResidentPeak};
use heaplab_trace::bundle::Meta;
use heaplab_trace::tables::{Frame, Module, Process, StackNode};
use serde::Serialize;
use serde_json::{Value, json};

/// Raised when a field changes its meaning or goes; new fields do not raise it.
const VERSION: u32 = 3;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    bundle: String,
    meta: &'a Meta,
    process: Option<u32>,
    processes: &'a [Process],
    process_peaks: &'a [ProcessPeak],
    profile: ProfileShown<'a>,
    findings: Value,
    moments: &'a Shown,
    resident: Option<ResidentPeak>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_parts: Option<ResidentParts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resident_kinds: Vec<KindsAt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dark_matter: Option<&'a DarkMatter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metaspace: Option<Metaspace<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metaspaces: Vec<OfProcess<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    savings: &'a [Saved],
    stacks: &'a [StackNode],
    frames: &'a [Frame],
    modules: &'a [Module],
}

/// The contents of a JVM's metaspace.
#[derive(Serialize)]
struct Metaspace<'a> {
    #[serde(flatten)]
    report: &'a heaplab_jvm::Report,
    findings: &'a [Found],
}

/// The same of one of several JVMs.
#[derive(Serialize)]
struct OfProcess<'a> {
    process: u32,
    #[serde(flatten)]
    metaspace: Metaspace<'a>,
}

impl<'a> Metaspace<'a> {
    fn of(jvm: &JvmMetaspace<'a>) -> Metaspace<'a> {
        Metaspace { report: jvm.report, findings: jvm.findings }
    }
}

/// The profile as it is, or without figures on moves if moves are unknown.
#[derive(Serialize)]
#[serde(untagged)]
enum ProfileShown<'a> {
    Whole(&'a Profile),
    WithoutMoves(Value),
}

/// Sets all counts of moves to null, at any depth.
fn forget_moves(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match name.as_str() {
                    "moved_reallocations"
                    | "moved_bytes"
                    | "remapped_bytes"
                    | "copied_moved_bytes" => *field = Value::Null,
                    _ => forget_moves(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forget_moves),
        _ => {}
    }
}

/// The document.
///
/// # Errors
/// None that a recording can cause; serialization is asked and answers.
pub fn document(report: &Report<'_>) -> serde_json::Result<String> {
    let tables = report.tables;
    let mut findings = serde_json::to_value(report.findings)?;
    // Labels beside each stack, so that a finding can be read without the tables.
    for finding in findings["findings"].as_array_mut().into_iter().flatten() {
        for share in finding["stacks"].as_array_mut().into_iter().flatten() {
            let stack = share["stack"].as_u64().unwrap_or(0) as u32;
            let labels: Vec<String> =
                tables.frames_of(stack).map(|frame| frames::label(tables, frame)).collect();
            share["frames"] = json!(labels);
        }
    }
    let profile = if report.meta.moves_unknown {
        let mut profile = serde_json::to_value(report.profile)?;
        forget_moves(&mut profile);
        forget_moves(&mut findings);
        ProfileShown::WithoutMoves(profile)
    } else {
        ProfileShown::Whole(report.profile)
    };
    let document = Document {
        format: "heaplab-report",
        version: VERSION,
        bundle: report.path.display().to_string(),
        meta: report.meta,
        process: report.process,
        processes: &tables.processes,
        process_peaks: report.peaks,
        profile,
        findings,
        moments: report.shown,
        resident: heaplab_profile::resident_peak(tables, report.process),
        resident_parts: heaplab_profile::resident_parts(tables, report.process),
        resident_kinds: heaplab_profile::resident_kinds(tables, report.process),
        dark_matter: report.dark_matter,
        metaspace: if let [one] = report.metaspaces { Some(Metaspace::of(one)) } else { None },
        metaspaces: if report.metaspaces.len() > 1 {
            report
                .metaspaces
                .iter()
                .map(|of| OfProcess { process: of.process, metaspace: Metaspace::of(of) })
                .collect()
        } else {
            Vec::new()
        },
        savings: report.savings,
        stacks: &tables.stacks,
        frames: &tables.frames,
        modules: &tables.modules,
    };
    let mut text = serde_json::to_string(&document)?;
    text.push('\n');
    Ok(text)
}
