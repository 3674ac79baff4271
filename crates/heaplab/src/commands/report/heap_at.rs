//! `report --on HEAP`: the pages of a heap when it has run the workload, at the end or right after
//! a collection.

use crate::heaps::{FAMILIES, misasked};
use anyhow::Result;
use heaplab_replay::entry::Standing;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program;

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
    pub fn as_source(&self) -> heaplab_report::HeapAt<'_> {
        heaplab_report::HeapAt {
            heap: &self.heap,
            moment: &self.moment,
            parts: &self.standing.parts,
        }
    }
}
