//! The heap as parts: each page is a chunk with its header, its objects and its free bytes.

use crate::check::page_parts;
use crate::facts::{PAGE_BYTES, SYSTEM_PAGE_BYTES};
use crate::heap::{Parts, V8Heap};
use crate::page::{Owner, Pages};
use crate::space::OldGeneration;
use heaplab_heap::{Part, Role};

/// All parts, old space first.
pub fn parts(heap: &V8Heap) -> Vec<Part> {
    let all = &heap.parts;
    let pages = &all.old.pages;
    let mut out = vec![Part::new(0, Role::Group, "old space", 0..0)];
    for page in all.old.own_pages() {
        chunk(pages, page, PAGE_BYTES, &mut out);
        page_parts(all, page, &mut out);
    }
    spans(all, &mut out);
    let maps = all.old.maps.own_pages(pages);
    if !maps.is_empty() {
        out.push(Part::group(0, Role::Group, "map space"));
    }
    for page in maps {
        chunk(pages, page, PAGE_BYTES, &mut out);
        page_parts(all, page, &mut out);
    }
    out.push(Part::group(0, Role::Group, "new space"));
    for (list, used) in [(&all.new.to.list, true), (&all.new.from.list, false)] {
        let filled = if used { all.new.used_pages(pages) } else { Vec::new() };
        for page in pages.of(list) {
            chunk(pages, page, PAGE_BYTES, &mut out);
            let (start, end) = (pages.area(page), pages.end(page));
            let top = match filled.iter().position(|&one| one == page) {
                Some(at) if at + 1 == filled.len() => all.new.top,
                Some(_) => end,
                None => start,
            };
            if top > start {
                out.push(Part::new(2, Role::Blocks, "blocks", start..top));
            }
            if top < end {
                out.push(Part::new(2, Role::Vacant, "(free, new space)", top..end));
            }
        }
    }
    out.push(Part::group(0, Role::Group, "large objects"));
    for &page in all.old_large.iter().chain(&all.young_large) {
        let bytes = all.large_committed(page);
        chunk(pages, page, bytes, &mut out);
        let (start, end) = (pages.area(page), pages.start(page) + bytes);
        let object_end = start + pages[page].large_bytes as usize;
        out.push(Part::new(2, Role::Blocks, "blocks", start..object_end));
        if object_end < end {
            out.push(Part::new(2, Role::Vacant, "(rest of the system's page)", object_end..end));
        }
    }
    out
}

/// Spans of size classes: runs of objects, free cells, and the rest behind the last cell. The rest
/// of an object's cell counts as the object's.
fn spans(all: &Parts, out: &mut Vec<Part>) {
    let Some(cells) = &all.old.segregated else { return };
    for (addresses, cell_bytes, cells) in cells.walk(&all.old.pages) {
        let name = format!("span of {cell_bytes} bytes");
        out.push(Part::new(1, Role::Chunk, name, addresses.clone()));
        let mut run: Option<std::ops::Range<usize>> = None;
        let close = |run: &mut Option<std::ops::Range<usize>>, out: &mut Vec<Part>| {
            if let Some(run) = run.take() {
                out.push(Part::new(2, Role::Blocks, "blocks", run));
            }
        };
        let mut end = addresses.start;
        for (cell, live) in cells {
            end = cell + cell_bytes;
            if live {
                run = Some(run.map_or(cell, |run| run.start)..end);
            } else {
                close(&mut run, out);
                let name = format!("(free cells of {cell_bytes} bytes)");
                out.push(Part::new(2, Role::Vacant, name, cell..end));
            }
        }
        close(&mut run, out);
        if end < addresses.end {
            out.push(Part::new(2, Role::Vacant, "(waste behind cells)", end..addresses.end));
        }
    }
}

fn chunk(pages: &Pages, page: u32, bytes: usize, out: &mut Vec<Part>) {
    let start = pages.start(page);
    out.push(Part::new(1, Role::Chunk, "page", start..start + bytes));
    out.push(Part::new(2, Role::Vacant, "(header)", start..pages.area(page)));
}

impl OldGeneration {
    /// Committed bytes of all spaces by V8's count: a large object takes whole pages of the system.
    pub(crate) fn walk_bytes(&self) -> u64 {
        debug_assert_eq!(PAGE_BYTES % SYSTEM_PAGE_BYTES, 0);
        let owned = |page: &crate::page::Page| {
            page.base_bytes == 0
                && matches!(
                    page.owner,
                    Owner::To | Owner::From | Owner::Old | Owner::Compaction | Owner::Map
                )
        };
        let pages = self.pages.iter().filter(|(_, page)| owned(page)).count();
        let spans = self.segregated.as_ref().map_or(0, |cells| cells.committed_bytes());
        (pages * PAGE_BYTES + self.large_bytes + spans) as u64
    }
}
