//! The Comparison: changes in each class since an older file, and the new and gone objects.

use super::parameters::{Asked, Problem};
use super::rows::{self, Order};
use super::{Opened, Page};
use crate::diff;
use heaplab_snapshot::Node;
use heaplab_snapshot::diff::ClassDiff;
use heaplab_text::lines::cut;
use heaplab_text::words::{bytes, count};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The file that is compared against.
fn base<'f>(
    page: &'f Page,
    file: usize,
    asked: &Asked,
) -> Result<(usize, &'f Opened<'f>), Problem> {
    let base: usize = asked.number("base", file.saturating_sub(1))?;
    match page.files.get(base) {
        None => Err(Problem::no_file(base)),
        Some(_) if base == file => {
            Err(Problem::Asked("a file is compared with another one".into()))
        }
        Some(opened) => Ok((base, opened)),
    }
}

/// Classes with new or gone objects.
pub(super) fn classes(page: &Page, file: usize, asked: &Asked) -> Result<Value, Problem> {
    let (base, _) = base(page, file, asked)?;
    let text = asked.text("text").to_lowercase();
    let mut diffs: Vec<(usize, &ClassDiff)> = (0..)
        .zip(page.compared((base, file)))
        .filter(|(_, diff)| {
            text.is_empty() || diff::name(&diff.name).to_lowercase().contains(&text)
        })
        .collect();
    let sort = asked.text("sort");
    diffs.sort_by_cached_key(|(_, class)| {
        let number = match sort {
            "added" => class.added.len() as i64,
            "removed" => class.removed.len() as i64,
            "delta" => class.count_delta(),
            "added_bytes" => class.added_size as i64,
            "removed_bytes" => class.removed_size as i64,
            "name" => 0,
            _ => class.size_delta(),
        };
        (Reverse(number), diff::name(&class.name).into_owned())
    });
    if asked.number("descending", 1_u8)? == 0 {
        diffs.reverse();
    }
    let row = |(number, class): &(usize, &ClassDiff)| {
        json!({
            "changed": number,
            "label": cut(&diff::name(&class.name), rows::CLASS_CHARACTERS),
            "added": count(class.added.len() as u64),
            "removed": count(class.removed.len() as u64),
            "delta": signed(class.count_delta(), count),
            "added_bytes": bytes(class.added_size),
            "removed_bytes": bytes(class.removed_size),
            "delta_bytes": signed(class.size_delta(), bytes),
        })
    };
    let (from, many) = asked.window()?;
    Ok(rows::answer(diffs.len(), diffs.iter().skip(from).take(many).map(row).collect()))
}

/// The new objects, then the gone ones. A row's `file` names the file that has the object.
pub(super) fn objects(page: &Page, file: usize, asked: &Asked) -> Result<Value, Problem> {
    let (base, older) = base(page, file, asked)?;
    let newer = &page.files[file];
    let number: usize = asked.number("changed", usize::MAX)?;
    let diffs = page.compared((base, file));
    let class =
        diffs.get(number).ok_or_else(|| Problem::Asked(format!("there is no change {number}")))?;
    let order = Order::of(asked)?;
    let (from, many) = asked.window()?;
    let added = class.added.len();
    let mut rows = Vec::new();
    let mut add = |opened: &Opened, file: usize, change: &str, nodes: &[Node], window| {
        let analysis = opened.analysis;
        for node in rows::objects_window(analysis, nodes.to_vec(), order, window) {
            let mut row = rows::object(analysis, node);
            row["change"] = change.into();
            row["file"] = file.into();
            let column = if change == "new" { "added_bytes" } else { "removed_bytes" };
            row[column] = bytes(analysis.self_size(node)).into();
            rows.push(row);
        }
    };
    if from < added {
        add(newer, file, "new", &class.added, (from, many));
    }
    let rest = (from + many).saturating_sub(added);
    if rest > 0 {
        let behind = from.saturating_sub(added);
        add(older, base, "gone", &class.removed, (behind, rest - behind));
    }
    Ok(rows::answer(added + class.removed.len(), rows))
}

fn signed(number: i64, words: impl Fn(u64) -> String) -> String {
    let sign = match number {
        0 => "",
        1.. => "+",
        _ => "\u{2212}",
    };
    format!("{sign}{}", words(number.unsigned_abs()))
}
