//! Collapsed stacks: one line a stack, for flame graph scripts (Brendan Gregg's format, and all
//! that read it).

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
            let frames: Vec<String> =
                labels(export.tables, row.stack).iter().rev().map(|label| plain(label)).collect();
            *lines.entry(without_number(frames.join(";"))).or_default() += weight;
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
        character
            if character.is_control() || character == '\u{2028}' || character == '\u{2029}' =>
        {
            ' '
        }
        character => character,
    };
    label.chars().map(replace).collect()
}

/// The stack, whose last name may end in a number of its own: flamegraph.pl takes that for a count
/// and the weight for the count of another run, which it shows the difference to. The space before
/// it becomes one that does not separate.
fn without_number(mut stack: String) -> String {
    let name =
        stack.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    if name.len() < stack.len() && name.ends_with(' ') {
        let space = name.len() - 1;
        stack.replace_range(space..=space, "\u{a0}");
    }
    stack
}
