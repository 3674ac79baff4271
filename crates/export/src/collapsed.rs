//! Collapsed stacks: one line a stack, for flame graph scripts (Brendan Gregg's format, and all its
//! readers).

use crate::{
    Export, ExportError, Weight,
    stacks::{labels, weighted},
};
use std::{collections::BTreeMap, io::Write};

/// Writes the lines, sorted, without those of weight 0.
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

/// A name without the format's own characters; the format has no escapes.
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

/// A stack's last name may end in a number. flamegraph.pl takes this number for a count, takes the
/// weight for another run's count, and shows the difference of the two. So the space before the
/// number becomes one that does not separate.
fn without_number(mut stack: String) -> String {
    let name =
        stack.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    if name.len() < stack.len() && name.ends_with(' ') {
        let space = name.len() - 1;
        stack.replace_range(space..=space, "\u{a0}");
    }
    stack
}
