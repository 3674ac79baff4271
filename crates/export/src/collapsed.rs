//! Collapsed stacks: one line a stack, for flame graph scripts (Brendan Gregg's format, and all that read it).

use crate::{
    Export, ExportError, Weight,
    stacks::{labels, weighted},
};
use std::{collections::BTreeMap, io::Write};

/// Writes the lines, sorted, without those that weigh nothing.
pub fn write(export: &Export<'_>, weight: Weight, out: &mut impl Write) -> Result<(), ExportError> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for row in weighted(export)? {
        let weight = match weight {
            Weight::InUseBytes => row.in_use.bytes,
            Weight::InUseObjects => row.in_use.objects,
            Weight::AllocatedBytes => row.requested.bytes,
            Weight::AllocatedObjects => row.requested.objects,
        };
        if weight > 0 {
            let frames: Vec<String> = labels(export.tables, row.stack).iter().rev().map(|label| plain(label)).collect();
            *lines.entry(frames.join(";")).or_default() += weight;
        }
    }
    for (stack, weight) in lines {
        writeln!(out, "{stack} {weight}")?;
    }
    Ok(())
}

/// A name without what the format uses itself; it has no escapes.
fn plain(label: &str) -> String {
    let replace = |character: char| match character {
        ';' => ':',
        character if character.is_control() || character == '\u{2028}' || character == '\u{2029}' => ' ',
        character => character,
    };
    label.chars().map(replace).collect()
}
