//! The invariants: every byte of old space and map space lies in exactly one place, lists are well
//! linked, and each category holds blocks of its own sizes only.

use crate::heap::{Parts, V8Heap};
use crate::object::{self, Kind};
use crate::page::{NONE, Owner, Pages};
use crate::space::{MAIN, OldGeneration, Space};
use crate::strategy::Strategy;
use crate::sweeper::Sweeper;
use heaplab_heap::{CheckError, Footprint, FreeBlocks, Heap, Part, Role};

fn broken<T>(
    place: impl Into<String>,
    expected: impl ToString,
    found: impl ToString,
) -> Result<T, CheckError> {
    Err(CheckError {
        place: place.into(),
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

/// The free bytes of a page: waste, then category, nodes and bytes of each category with blocks.
pub type FreePage = (u64, Vec<(usize, u64, u64)>);

/// For each page of the main space, in its order: waste, then nodes and bytes of each category with
/// blocks.
pub fn free_by_page(old: &OldGeneration) -> Vec<FreePage> {
    let page_sums = |page: u32| {
        let mut sums = Vec::new();
        for (category, entry) in old.pages[page].categories.iter().enumerate() {
            let (mut offset, mut nodes, mut sum) = (entry.top as usize, 0, 0);
            while offset != 0 {
                let node = old.pages.start(page) + offset;
                // SAFETY: nodes of a category are free blocks of its page.
                let (bytes, next) = unsafe { (object::header(node).bytes, object::link(node)) };
                nodes += 1;
                sum += bytes as u64;
                offset = next;
            }
            if nodes > 0 {
                sums.push((category, nodes, sum));
            }
        }
        (u64::from(old.pages[page].wasted_bytes), sums)
    };
    old.own_pages().into_iter().map(page_sums).collect()
}

/// Free blocks of each category over all pages of the main space.
pub fn free_by_category(old: &OldGeneration) -> Vec<FreeBlocks> {
    let mut sums = vec![FreeBlocks::default(); old.strategy.categories()];
    for (_, page) in free_by_page(old) {
        for (category, blocks, bytes) in page {
            sums[category].blocks += blocks;
            sums[category].bytes += bytes;
        }
    }
    sums
}

/// The space of a page: old space or map space, with its free-list strategy and its name.
fn home(parts: &Parts, page: u32) -> (&Space, &Strategy, &'static str) {
    let old = &parts.old;
    match old.pages[page].owner {
        Owner::Map => (&old.maps.space, &old.maps.strategy, "map space"),
        _ => (&old.spaces[MAIN], &old.strategy, "old space"),
    }
}

/// Walks a page of old space or map space; returns its parts: objects, free blocks in lists, waste.
fn walk_page(parts: &Parts, page: u32) -> Result<Vec<(usize, usize, Kind)>, CheckError> {
    let pages = &parts.old.pages;
    let (space, ..) = home(parts, page);
    let mut found = Vec::new();
    let (mut at, end) = (pages.area(page), pages.area_end(page));
    while at < end {
        if at == space.top && space.top != space.limit {
            found.push((at, space.limit - at, Kind::Filler));
            at = space.limit;
            continue;
        }
        // SAFETY: these pages are iterable: every object and free block has its header.
        let header = unsafe { object::header(at) };
        if header.bytes == 0 || at + header.bytes > end {
            return broken(
                format!("page {page}, {at:#x}"),
                "an object within the page",
                format!("{} bytes", header.bytes),
            );
        }
        found.push((at, header.bytes, header.kind));
        at += header.bytes;
    }
    Ok(found)
}

fn check_page(parts: &Parts, page: u32) -> Result<(), CheckError> {
    let pages = &parts.old.pages;
    let books = &pages[page];
    let (_, strategy, space) = home(parts, page);
    let place = || format!("page {page} of {space}");
    if books.unswept {
        return if books.categories.iter().all(|category| category.top == 0) {
            Ok(())
        } else {
            broken(place(), "no free nodes before it is swept", "nodes")
        };
    }
    let (mut used, mut waste, mut free) = (0, 0, std::collections::BTreeSet::new());
    for (at, bytes, kind) in walk_page(parts, page)? {
        match kind {
            Kind::Free if bytes < strategy.minimum_block() => waste += bytes,
            Kind::Free => {
                free.insert((at, bytes));
            }
            _ => used += bytes,
        }
    }
    if used != books.allocated_bytes as usize {
        return broken(format!("{}: allocated bytes", place()), books.allocated_bytes, used);
    }
    if waste != books.wasted_bytes as usize {
        return broken(format!("{}: waste", place()), books.wasted_bytes, waste);
    }
    for (number, category) in books.categories.iter().enumerate() {
        let (mut offset, mut sum) = (category.top as usize, 0);
        while offset != 0 {
            let node = pages.start(page) + offset;
            // SAFETY: the offset is that of a free block, or the set does not contain it.
            let (bytes, next) = unsafe { (object::header(node).bytes, object::link(node)) };
            if !free.remove(&(node, bytes)) || strategy.category(bytes) != number {
                return broken(
                    format!("{}, category {number}", place()),
                    "each free block once, in its category",
                    format!("{node:#x}"),
                );
            }
            sum += bytes;
            offset = next;
        }
        if sum != category.available as usize {
            return broken(format!("{}, category {number}", place()), category.available, sum);
        }
    }
    match free.first() {
        None => Ok(()),
        Some((at, bytes)) => broken(
            place(),
            "every free block in a list",
            format!("{bytes} bytes at {at:#x} in none"),
        ),
    }
}

/// Links of a space's free list: every page with nodes once, in both directions.
fn check_links(pages: &Pages, space: &Space, owner: Owner) -> Result<(), CheckError> {
    let mut available = 0;
    for category in 0..space.free.categories() {
        let (mut page, mut before) = (space.free.top(category), NONE);
        while page != NONE {
            let entry = &pages[page].categories[category];
            if entry.previous != before || entry.top == 0 || pages[page].owner != owner {
                return broken(
                    format!("free list of {owner:?}, category {category}"),
                    "pages with nodes, linked both ways",
                    format!("page {page}"),
                );
            }
            available += entry.available as usize;
            before = page;
            page = entry.next;
        }
    }
    if available != space.free.available() {
        let place = format!("free list of {owner:?}: available bytes");
        return broken(place, space.free.available(), available);
    }
    Ok(())
}

/// The pages of old space or map space: each one, their sizes' sum, and the links of their list.
fn check_space(parts: &Parts, space: &Space, sweeper: &Sweeper) -> Result<(), CheckError> {
    let pages = &parts.old.pages;
    let mut size = 0;
    for page in pages.of(&space.list) {
        if pages[page].base_bytes == 0 {
            check_page(parts, page)?;
        }
        let books = &pages[page];
        // A page that was swept but not adopted still has the books of marking.
        let marked = books.unswept || sweeper.swept.contains(&page);
        size += if marked { books.live_bytes } else { books.allocated_bytes } as usize;
    }
    if size != space.size {
        return broken("a space's size: its pages' bytes", space.size, size);
    }
    Ok(())
}

impl Heap for V8Heap {
    fn version(&self) -> String {
        format!("the rules of V8 {} with {}", self.spec.version.name, self.spec.strategy.name)
    }

    fn footprint(&self) -> Footprint {
        let parts = &self.parts;
        let (old, maps) = (self.old_state(), parts.old.maps.state(&parts.old.pages));
        let committed = parts.old.walk_bytes();
        Footprint {
            used_bytes: Some(parts.used_bytes()),
            free_reusable_bytes: Some(old.available_bytes + maps.available_bytes),
            free_too_small_bytes: old
                .waste_bytes
                .zip(maps.waste_bytes)
                .map(|(old, maps)| old + maps),
            committed_bytes: Some(committed),
            ..Footprint::default()
        }
    }

    fn check(&self) -> Result<(), CheckError> {
        let (main, maps) = (&self.parts.old.spaces[MAIN], &self.parts.old.maps.space);
        let new = &self.parts.new;
        for (top, limit) in [(main.top, main.limit), (maps.top, maps.limit), (new.top, new.limit)] {
            if top > limit {
                return broken(
                    "linear area",
                    format!("a top up to {limit:#x}"),
                    format!("{top:#x}"),
                );
            }
        }
        if self.parts.old.spaces.len() != 1 {
            return broken(
                "compaction spaces",
                "none between collections",
                self.parts.old.spaces.len() - 1,
            );
        }
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.check()?;
        let old = &self.parts.old;
        check_space(&self.parts, &old.spaces[MAIN], &old.sweeper)?;
        check_space(&self.parts, &old.maps.space, &old.maps.sweeper)?;
        if let Some(cells) = &old.segregated {
            let wrong = |(place, expected, found)| CheckError { place, expected, found };
            cells.check(&old.pages).map_err(wrong)?;
        }
        check_links(&old.pages, &old.spaces[MAIN], Owner::Old)?;
        check_links(&old.pages, &old.maps.space, Owner::Map)
    }

    fn walk(&self) -> Option<Vec<Part>> {
        Some(crate::walk::parts(self))
    }

    fn losses(&self) -> Vec<String> {
        let mut losses = crate::losses::losses(self);
        losses.extend(
            self.lost_before_the_last()
                .iter()
                .map(|loss| format!("Before the last collection: {loss}")),
        );
        losses
    }
}

/// Parts of a page of old space or map space, for a walk: runs of objects, free blocks by category,
/// waste, the linear area. On a page that waits to be swept the marks show what the sweep will
/// free, and where its blocks will belong; until then they are on no list.
pub fn page_parts(parts: &Parts, page: u32, out: &mut Vec<Part>) {
    let Ok(found) = walk_page(parts, page) else { return };
    let (_, strategy, _) = home(parts, page);
    let (books, first) = (&parts.old.pages[page], parts.old.pages.start(page));
    // Neighbours are one part: live objects, or what the sweep will make one block of.
    let mut run: Option<(bool, std::ops::Range<usize>)> = None;
    let close = |run: &mut Option<(bool, std::ops::Range<usize>)>, out: &mut Vec<Part>| {
        out.extend(run.take().map(|(live, addresses)| {
            if live {
                return Part::new(2, Role::Blocks, "blocks", addresses);
            }
            let name = strategy.free_name("free once swept", "waste once swept", addresses.len());
            Part::new(2, Role::Vacant, name, addresses)
        }));
    };
    for (at, bytes, kind) in found {
        let name = match kind {
            Kind::Free if !books.unswept => strategy.free_name("free", "waste", bytes),
            Kind::Filler if !books.unswept => "(linear area)".into(),
            _ => {
                let live = !books.unswept || books.is_marked(at - first);
                match &mut run {
                    Some((same, addresses)) if *same == live => addresses.end = at + bytes,
                    _ => {
                        close(&mut run, out);
                        run = Some((live, at..at + bytes));
                    }
                }
                continue;
            }
        };
        close(&mut run, out);
        out.push(Part::new(2, Role::Vacant, name, at..at + bytes));
    }
    close(&mut run, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use heaplab_heap::witness::{Objects, Witness};
    use heaplab_heap::{Ask, Birth, Collected, Origin, Place};
    use std::collections::BTreeMap;

    const SLOTS: u32 = 2_000;

    /// A heap whose old space has holes of some sizes, all swept.
    fn heap_with_holes() -> V8Heap {
        let mut heap = V8Heap::new(Spec::parse("many,compact=never,shape=plain").unwrap()).unwrap();
        let mut world = Witness::new(SLOTS);
        for slot in 0..SLOTS {
            let size = 24 + 8 * (slot as usize % 37);
            let birth = Birth { slot, size, align: 1, origin: Origin::Runtime, place: Place::Old };
            let born = heap.allocate(birth, &mut world).unwrap();
            world.born(slot, born, size);
        }
        (0..SLOTS).step_by(2).for_each(|slot| world.died(slot));
        heap.collect(Ask::Full, &mut world).unwrap();
        heap.parts.old.complete_sweeping();
        heap.check_deep().unwrap();
        heap
    }

    #[test]
    fn dead_objects_of_unswept_pages_are_no_blocks() {
        let mut heap = V8Heap::new(Spec::parse("many,compact=never,shape=plain").unwrap()).unwrap();
        let mut world = Witness::new(SLOTS);
        for slot in 0..SLOTS {
            let birth =
                Birth { slot, size: 400, align: 1, origin: Origin::Runtime, place: Place::Old };
            let born = heap.allocate(birth, &mut world).unwrap();
            world.born(slot, born, 400);
        }
        (0..SLOTS).filter(|slot| slot % 4 != 0).for_each(|slot| world.died(slot));
        heap.collect(Ask::Full, &mut world).unwrap();
        let parts = heap.walk().unwrap();
        let bytes = |role: heaplab_heap::Role, name: &str| -> u64 {
            let of = parts.iter().filter(|part| part.role == role && part.name == name);
            of.map(Part::own_bytes).sum()
        };
        let used = heap.collections().last().unwrap().after.used_bytes;
        assert_eq!(bytes(heaplab_heap::Role::Blocks, "blocks"), used);
        // What the sweep will free is shown as after it, under other names.
        let vacant = |parts: &[Part], from: &str, to: &str| -> BTreeMap<String, u64> {
            let mut sums = BTreeMap::new();
            let of_size = |part: &&Part| part.name.starts_with(from) && part.name.contains("bytes");
            for part in parts.iter().filter(of_size) {
                *sums.entry(part.name.replace(from, to)).or_default() += part.own_bytes();
            }
            sums
        };
        let promised = vacant(&parts, "(free once swept,", "(free,");
        assert!(promised.values().sum::<u64>() > 2 * used, "{promised:?}, {used} used");
        heap.parts.old.complete_sweeping();
        assert_eq!(promised, vacant(&heap.walk().unwrap(), "(free,", "(free,"));
    }

    /// A page and a category of it with two nodes or more.
    fn filled(heap: &V8Heap) -> (u32, usize) {
        let old = &heap.parts.old;
        for page in old.own_pages() {
            for (category, entry) in old.pages[page].categories.iter().enumerate() {
                if entry.top == 0 {
                    continue;
                }
                let node = old.pages.start(page) + entry.top as usize;
                // SAFETY: a category's first node is a free block.
                if unsafe { object::link(node) } != 0 {
                    return (page, category);
                }
            }
        }
        panic!("no category has two nodes");
    }

    fn caught(what: &str, damage: impl FnOnce(&mut V8Heap, u32, usize)) {
        let mut heap = heap_with_holes();
        let (page, category) = filled(&heap);
        damage(&mut heap, page, category);
        let error = heap.check_deep().expect_err(what);
        assert!(error.to_string().contains("page"), "{what}: {error}");
    }

    #[test]
    fn broken_lists_are_caught() {
        caught("a node that no list has", |heap, page, category| {
            let old = &mut heap.parts.old;
            let node = old.pages.start(page) + old.pages[page].categories[category].top as usize;
            // SAFETY: the node is a free block.
            let (bytes, next) = unsafe { (object::bytes(node), object::link(node)) };
            let entry = &mut old.pages[page].categories[category];
            (entry.top, entry.available) = (next as u32, entry.available - bytes as u32);
        });
        caught("a node twice in its list", |heap, page, category| {
            let old = &heap.parts.old;
            let node = old.pages.start(page) + old.pages[page].categories[category].top as usize;
            // SAFETY: both nodes are free blocks.
            unsafe {
                let next = old.pages.start(page) + object::link(node);
                object::set_link(next, node - old.pages.start(page));
            }
        });
        caught("a node of another category", |heap, page, category| {
            let entries = &mut heap.parts.old.pages[page].categories;
            let other = if category == 0 { 1 } else { category - 1 };
            let (moved, there) = (entries[category].top, entries[other].top);
            (entries[category].top, entries[other].top) = (there, moved);
        });
        caught("an object over a free block", |heap, page, category| {
            let old = &heap.parts.old;
            let node = old.pages.start(page) + old.pages[page].categories[category].top as usize;
            // SAFETY: the node is a free block.
            unsafe {
                let bytes = object::bytes(node);
                object::set_header(node, object::Header::vacant(Kind::Filler, bytes));
            }
        });
        caught("waste that is none", |heap, page, _| heap.parts.old.pages[page].wasted_bytes += 8);
        caught("bytes that nobody has", |heap, page, _| {
            heap.parts.old.pages[page].allocated_bytes -= 8;
        });
    }
}
