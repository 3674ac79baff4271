//! `report --on HEAP`: the pages of a heap when it has run the workload, at the end or right after
//! a collection.

use super::text::Look;
use crate::heaps::{FAMILIES, misasked};
use anyhow::Result;
use heaplab_heap::{Part, Role};
use heaplab_replay::entry::Standing;
use heaplab_text::table::{Ruling, ruled};
use heaplab_text::words;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program;
use std::collections::BTreeMap;

/// A heap that has run the workload.
pub struct HeapAt {
    heap: String,
    moment: String,
    standing: Standing,
}

impl HeapAt {
    /// Runs the workload on the heap called `name` up to the moment `at`: `end`, or `collection:N`.
    pub fn run(
        bundle: &Bundle,
        selection: Selection,
        name: &str,
        at: Option<&str>,
    ) -> Result<HeapAt> {
        let heap = FAMILIES.parse(name).map_err(misasked)?;
        FAMILIES.walked(heap.as_ref()).map_err(misasked)?;
        let number = match at {
            None | Some("end") => None,
            Some(at) => match at.strip_prefix("collection:").map(str::parse) {
                Some(Ok(number)) => Some(number),
                _ => misasked!(
                    "--at {at}: with --on, a moment is end or collection:N, such as collection:7"
                ),
            },
        };
        let program = program::cached(bundle, selection)?;
        let standing = heap.stand_after(&program, number).map_err(misasked)?;
        let moment = match (number, standing.collections.last()) {
            (Some(number), Some(last)) => {
                format!("after collection {number} ({}, {})", last.kind, last.cause)
            }
            _ => String::from("at the end"),
        };
        Ok(HeapAt { heap: heap.to_string(), moment, standing })
    }

    /// For the page.
    pub fn as_source(&self) -> heaplab_page::HeapAt<'_> {
        heaplab_page::HeapAt { heap: &self.heap, moment: &self.moment, parts: &self.standing.parts }
    }

    /// For a terminal: what is in blocks, and the vacant bytes by kind.
    pub fn text(&self, look: &Look) -> String {
        let mut kinds: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
        let own = |role: Role| self.standing.parts.iter().filter(move |part| part.role == role);
        for part in own(Role::Vacant) {
            let (pieces, bytes, largest) = kinds.entry(&part.name).or_default();
            (*pieces, *bytes, *largest) =
                (*pieces + 1, *bytes + part.own_bytes(), part.own_bytes().max(*largest));
        }
        let live: u64 = own(Role::Blocks).map(Part::own_bytes).sum();
        let vacant: u64 = kinds.values().map(|(_, bytes, _)| bytes).sum();
        let pages = own(Role::Chunk).count() as u64;
        let mut rows: Vec<_> = kinds.into_iter().collect();
        rows.sort_by_key(|(_, (_, bytes, _))| std::cmp::Reverse(*bytes));
        let rows = rows.into_iter().map(|(name, (pieces, bytes, largest))| {
            let mean = bytes / pieces.max(1);
            let sizes = [bytes, mean, largest].map(words::bytes);
            [vec![name.to_owned(), words::count(pieces)], sizes.to_vec()].concat()
        });
        let headings = ["vacant", "pieces", "bytes", "mean", "largest"];
        let table = ruled(Ruling::EveryRow, headings, rows, 1, look.width);
        format!(
            "{} {}: {}, {} in blocks, {} vacant.\n\n{table}\n\nThe pages as a picture: --html FILE\n",
            self.heap,
            self.moment,
            words::plural(pages, "page"),
            words::bytes(live),
            words::bytes(vacant),
        )
    }
}
