//! speedscope's JSON: shared frames, and four "sampled" profiles whose samples are stacks and whose
//! weights are bytes or objects.
//!
//! Source: `file-format-schema.json` of speedscope 1.25. Stacks are written outermost first. The
//! order of samples has no meaning here, so samples are sorted by stack: related stacks are
//! neighbours in the time view.

use crate::{
    Export, ExportError,
    stacks::{NO_STACK_LABEL, Weighted, weighted},
};
use heaplab_profile::Amount;
use serde::Serialize;
use std::{collections::HashMap, io::Write};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: &'static str,
    active_profile_index: u32,
    shared: Shared<'a>,
    profiles: [Profile; 4],
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
struct Frame<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

/// Writes the file.
pub fn write(export: &Export<'_>, out: &mut impl Write) -> Result<(), ExportError> {
    let rows = weighted(export)?;
    let mut frames = Frames::default();
    let stacks: Vec<Vec<u32>> = rows.iter().map(|row| frames.stack(export, row)).collect();
    let moment = export.moment_name();
    let profile = |name: String, unit, weight: fn(&Weighted) -> u64| {
        let chosen: Vec<usize> = (0..rows.len()).filter(|row| weight(&rows[*row]) > 0).collect();
        let weights: Vec<u64> = chosen.iter().map(|row| weight(&rows[*row])).collect();
        let samples = chosen.iter().map(|row| stacks[*row].clone()).collect();
        Profile {
            r#type: "sampled",
            name,
            unit,
            start_value: 0,
            end_value: weights.iter().sum(),
            samples,
            weights,
        }
    };
    let profiles = [
        profile(format!("in use at {moment} (bytes)"), "bytes", |row| row.in_use.bytes),
        profile("allocated (bytes)".into(), "bytes", |row| row.requested.bytes),
        profile(format!("in use at {moment} (objects)"), "none", |row| objects(row.in_use)),
        profile("allocated (requests)".into(), "none", |row| objects(row.requested)),
    ];
    let exporter = concat!("heaplab ", env!("CARGO_PKG_VERSION"));
    let shared = Shared { frames: frames.rows };
    let file = File {
        schema: SCHEMA,
        name: &export.about.program,
        exporter,
        active_profile_index: 0,
        shared,
        profiles,
    };
    Ok(serde_json::to_writer(out, &file)?)
}

fn objects(amount: Amount) -> u64 {
    amount.objects
}

/// Frames by their text.
#[derive(Default)]
struct Frames<'a> {
    rows: Vec<Frame<'a>>,
    numbers: HashMap<Frame<'a>, u32>,
}

impl<'a> Frames<'a> {
    /// The frames of a stack, outermost first.
    fn stack(&mut self, export: &Export<'a>, row: &Weighted) -> Vec<u32> {
        let tables = export.tables;
        let mut numbers: Vec<u32> = Vec::new();
        for frame in tables.frames_of(row.stack) {
            let source = tables.frames.get(frame as usize);
            let file = source.and_then(|source| source.file.as_deref());
            let line = source.map(|source| source.line).filter(|line| *line > 0);
            numbers.push(self.number(Frame { name: tables.frame_label(frame), file, line }));
        }
        if numbers.is_empty() {
            numbers.push(self.number(Frame {
                name: NO_STACK_LABEL.into(),
                file: None,
                line: None,
            }));
        }
        numbers.reverse();
        numbers
    }

    fn number(&mut self, frame: Frame<'a>) -> u32 {
        let next = self.rows.len() as u32;
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            self.rows.push(frame.clone());
            next
        })
    }
}
