//! The runtime's own objects in old space.
//!
//! They take part in a collection: their pages are swept between the workload's pages, and a
//! compaction moves them between objects of the workload. So their sizes decide where the
//! workload's objects lie. If the sizes are known (`heaplab_node::own` reads them from a real V8),
//! the objects lie here at the same places. If only a page's live bytes are known, the page has no
//! memory and is never emptied.

use crate::facts::{Version, WORD_BYTES};
use crate::object::{self, Header, Kind};
use crate::page::Owner;
use crate::space::{MAIN, OldGeneration};
use serde::Deserialize;

/// A page of the runtime's own objects, when the workload begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnPage {
    /// Bytes of its objects.
    pub live_bytes: u32,
    /// It has a remembered set.
    pub remembered: bool,
    /// Offset in the area and bytes of each object, upwards; empty: unknown.
    pub objects: Vec<(u32, u32)>,
    /// Bytes that are missing at the end of the page's area.
    pub cut_bytes: u32,
    /// No compaction empties it.
    pub stays: bool,
}

impl OwnPage {
    /// A page without known objects: it counts as full.
    pub fn of_bytes(live_bytes: u32, remembered: bool) -> OwnPage {
        OwnPage { live_bytes, remembered, ..OwnPage::default() }
    }
}

/// A file that `own=` of the family `node` wrote.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    /// Node's version.
    node: Option<String>,
    page: Vec<DescribedPage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedPage {
    area_bytes: u32,
    stays: bool,
    remembered: bool,
    /// Bytes (negative: a free piece), and the number of pieces of this size in a row.
    objects: Vec<(i64, u32)>,
}

/// Smallest object: a header word and one more.
const OBJECT_BYTES_MIN: u32 = 16;
/// Most pages in a file.
const PAGES_MAX: usize = 1000;

/// The pages in a file of this version's Node. Refuses a free piece of
/// `block_bytes` bytes or more, the strategy's smallest free block: the strategy would place the
/// workload's objects there, on a page that the workload's figures leave out.
///
/// # Errors
/// The mistake, with the page's number from 1.
pub fn from_toml(
    text: &str,
    version: &Version,
    block_bytes: usize,
) -> Result<Vec<OwnPage>, String> {
    let described: Described =
        toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
    if let Some(node) = described.node.filter(|node| node != version.node) {
        return Err(format!(
            "it is of Node {node}, and version={} is of Node {}: use version={node}, or let own= of \
             node:version={} write a file",
            version.name, version.node, version.node
        ));
    }
    if described.page.len() > PAGES_MAX {
        return Err(format!("it has {} pages, and {PAGES_MAX} are the most", described.page.len()));
    }
    let pages = described.page.iter();
    pages
        .map(|page| {
            let own = described_page(page, version.area_bytes)?;
            match largest_hole(&own, page.area_bytes) {
                (bytes, offset) if bytes as usize >= block_bytes => Err(format!(
                    "{bytes} bytes are free at {offset}, and the strategy would place objects \
                     there: let own= write the file with the same strategy"
                )),
                _ => Ok(own),
            }
        })
        .enumerate()
        .map(|(number, page)| page.map_err(|what| format!("page {}: {what}", number + 1)))
        .collect()
}

/// Bytes and offset of the largest free piece between and behind the objects of a page.
fn largest_hole(page: &OwnPage, area_bytes: u32) -> (u32, u32) {
    let starts = page.objects.iter().map(|&(offset, _)| offset).chain([area_bytes]);
    let ends = page.objects.iter().map(|(offset, bytes)| offset + bytes);
    let holes = starts.zip([0].into_iter().chain(ends)).map(|(start, end)| (start - end, end));
    holes.max_by_key(|(bytes, _)| *bytes).unwrap_or_default()
}

fn described_page(page: &DescribedPage, area_bytes: usize) -> Result<OwnPage, String> {
    let cut_bytes = (area_bytes as u32).checked_sub(page.area_bytes).ok_or_else(|| {
        format!("its area has {} bytes, and one of this version {area_bytes}", page.area_bytes)
    })?;
    let (mut end, mut objects) = (0, Vec::new());
    for &(bytes, count) in &page.objects {
        let size = u32::try_from(bytes.unsigned_abs()).unwrap_or(u32::MAX);
        if !size.is_multiple_of(WORD_BYTES as u32)
            || size == 0
            || bytes > 0 && size < OBJECT_BYTES_MIN
        {
            return Err(format!("objects have whole words, two at least, not {bytes} bytes"));
        }
        for _ in 0..count {
            if bytes > 0 {
                objects.push((end, size));
            }
            end = u32::saturating_add(end, size);
            if end > page.area_bytes {
                return Err(format!("its objects take more than its {} bytes", page.area_bytes));
            }
        }
    }
    if objects.is_empty() {
        return Err("it has no object".into());
    }
    let live_bytes = objects.iter().map(|(_, bytes)| bytes).sum();
    Ok(OwnPage { live_bytes, remembered: page.remembered, objects, cut_bytes, stays: page.stays })
}

impl OldGeneration {
    /// Begins in the state after the collection that ended the runtime's start: its pages wait to
    /// be swept. With `compacted`, a compaction has swept them already, in search of room.
    pub fn begin(&mut self, compacted: bool) {
        self.sweeper.start(&self.pages);
        if compacted {
            self.sweeper.sweep_some(&mut self.pages, &self.strategy, 0, usize::MAX);
            self.adopt(MAIN);
            // Pages that the compaction filled were not swept; their waste remains booked.
            let waste = |&page: &u32| self.pages[page].stays.then(|| self.pages[page].wasted_bytes);
            self.sweeper.wasted =
                self.own_pages().iter().filter_map(waste).map(|bytes| bytes as usize).sum();
        }
    }

    /// Adds a page of the runtime's own objects. Returns the addresses of the known objects,
    /// numbered from `first`.
    ///
    /// # Panics
    /// Objects are not of whole words within the area.
    pub fn add_own_page(&mut self, own: &OwnPage, first: usize) -> Vec<usize> {
        if own.objects.is_empty() || self.segregated.is_some() {
            self.add_base_page(own.live_bytes, own.remembered);
            return Vec::new();
        }
        let Some(page) = self.pages.take(Owner::Old, self.strategy.categories()) else {
            return Vec::new();
        };
        let area = self.pages.area(page);
        let mut placed = Vec::with_capacity(own.objects.len());
        for (number, &(offset, bytes)) in own.objects.iter().enumerate() {
            let at = area + offset as usize;
            let bytes = bytes as usize;
            assert!(
                (at | bytes).is_multiple_of(WORD_BYTES) && at + bytes <= self.pages.end(page),
                "objects of whole words within the area, not {bytes} bytes at {offset}"
            );
            let slot = (first + number) as u32;
            // SAFETY: the page was just committed, and the object lies within its area.
            unsafe {
                object::set_header(at, Header { kind: Kind::Own, align_bits: 0, bytes, slot })
            };
            let start = self.pages.start(page);
            self.pages[page].mark(at - start);
            placed.push(at);
        }
        let books = &mut self.pages[page];
        books.stays = own.stays;
        books.remembered = own.remembered;
        books.cut_bytes = own.cut_bytes;
        books.live_bytes = own.live_bytes;
        books.allocated_bytes = own.live_bytes;
        self.base = (self.base.0 + 1, self.base.1 + own.live_bytes as usize);
        self.add_page(MAIN, page);
        self.sweeper.add(&mut self.pages, page);
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_wrong_ones_explained() {
        let page = |area: u32, objects: &str| {
            format!(
                "[[page]]\narea_bytes = {area}\nstays = true\nremembered = false\nobjects = {objects}\n"
            )
        };
        let version = Version { area_bytes: 1000, ..crate::facts::VERSIONS[1] };
        let read = |text: &str| from_toml(text, &version, 2040);
        let pages = read(&page(900, "[[24,2],[-8,1],[16,1]]")).unwrap();
        let expected = OwnPage {
            live_bytes: 64,
            objects: vec![(0, 24), (24, 24), (56, 16)],
            cut_bytes: 100,
            stays: true,
            remembered: false,
        };
        assert_eq!(pages, [expected]);
        let said = |area, objects: &str| read(&page(area, objects)).unwrap_err();
        assert!(said(1001, "[[24,1]]").contains("page 1: its area has 1001 bytes"));
        assert!(said(900, "[[24,40]]").contains("more than its 900 bytes"));
        assert!(said(900, "[[24,4294967295]]").contains("more than its 900 bytes"));
        assert!(said(900, "[[-9223372036854775808,1]]").contains("whole words"));
        assert!(said(900, "[[8,1]]").contains("two at least, not 8 bytes"));
        assert!(
            said(900, "[[-0,3]]").contains("whole words") && said(900, "[]").contains("no object")
        );
        let holes = |area, objects: &str| from_toml(&page(area, objects), &version, 24);
        assert!(holes(72, "[[24,1],[-16,1],[16,1]]").is_ok(), "16 bytes within and 16 behind");
        let within = holes(72, "[[24,1],[-8,3],[16,1]]").unwrap_err();
        assert!(within.starts_with("page 1: 24 bytes are free at 24"), "{within}");
        let behind = holes(72, "[[24,2]]").unwrap_err();
        assert!(behind.starts_with("page 1: 24 bytes are free at 48"), "{behind}");
        let of = |node: &str| read(&format!("node = {node:?}\n{}", page(900, "[[24,1]]")));
        assert!(of("13.14.0").is_ok());
        let other = of("14.21.3").unwrap_err();
        assert!(other.starts_with("it is of Node 14.21.3, and version=7.9 is of"), "{other}");
        assert!(read("page = 3").is_err() && read("[[page]]\nstays = true").is_err());
    }
}
