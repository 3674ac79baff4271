//! The pages of a heap that ran the workload, at its end or right after a collection.

use heaplab_heap::{Collection, Part, Role};
use heaplab_text::lines::paragraph;
use heaplab_text::table::{Ruling, ruled};
use heaplab_text::words;
use std::collections::BTreeMap;

/// A heap at one moment, as it says what it is made of.
#[derive(Clone, Copy, Debug)]
pub struct HeapAt<'a> {
    /// The heap's name, with parameters.
    pub heap: &'a str,
    /// When: "after collection 7 (mark-sweep, forced)".
    pub moment: &'a str,
    /// Its walk.
    pub parts: &'a [Part],
    /// What the heap itself says of what it loses then, each a sentence.
    pub losses: &'a [String],
    /// Its collections, of a heap that collects.
    pub collections: &'a [Collection],
    /// When most was committed and not live, with what was lost then.
    pub peak: Option<&'a Moment>,
    /// For the page: the moments to be drawn, in their order, that of the report last.
    pub moments: &'a [Moment],
}

/// A heap's pages at one moment.
#[derive(Clone, Debug)]
pub struct Moment {
    /// When.
    pub name: String,
    /// Its walk.
    pub parts: Vec<Part>,
    /// What the heap itself says of what it loses, each a sentence.
    pub losses: Vec<String>,
}

impl HeapAt<'_> {
    /// For a terminal: what is in blocks, and the vacant bytes by kind.
    pub fn text(&self, columns: usize) -> String {
        let mut kinds: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
        let own = |role: Role| self.parts.iter().filter(move |part| part.role == role);
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
        let table = ruled(Ruling::EveryRow, headings, rows, 1, columns);
        let heading = format!(
            "{} {}: {}, {} in blocks, {} vacant.",
            self.heap,
            self.moment,
            words::plural(pages, "page"),
            words::bytes(live),
            words::bytes(vacant),
        );
        let told = |heading: &str, losses: &[String]| -> String {
            let losses = losses.iter().map(|loss| paragraph(loss, "  ", 2, columns));
            std::iter::once(paragraph(heading, "", 0, columns)).chain(losses).collect()
        };
        let peak = self.peak.map(|peak| told(&format!("{}:", peak.name), &peak.losses));
        format!(
            "{}{}\n{table}\n\nThe pages as a picture: --html FILE\n",
            told(&heading, self.losses),
            peak.unwrap_or_default(),
        )
    }
}
