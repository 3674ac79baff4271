//! The full collection: marks, chooses pages to empty, prepares sweeping, empties pages and new
//! space.
//!
//! Source: V8's mark-compact.cc. Pages to empty are chosen before marking, by the bytes allocated
//! on them: the last sweep's figure with allocations since. All other pages are swept later, when
//! an allocation needs memory ([`crate::sweeper`]).

use crate::facts::{EVACUATION_FREE_PERCENT, EVACUATION_QUOTA_BYTES, PAGE_PROMOTION_PERCENT};
use crate::heap::Parts;
use crate::new_space::Buffer;
use crate::object::{self, Kind};
use crate::page::Owner;
use crate::scavenger::{NoRoom, move_object};
use crate::sort;
use crate::space::{MAIN, OldGeneration};
use crate::spec::Compact;
use heaplab_heap::{Origin, Work, World};

/// Runs a full collection.
#[inline(never)] // Profiles tell it apart.
pub fn run<W: World>(parts: &mut Parts, world: &mut W) -> Result<Work, NoRoom> {
    let mut work = Work::default();
    if let Some(log) = &mut parts.old.refills {
        log.end_cycle();
    }
    parts.old.complete_sweeping();
    let candidates = choose_candidates(parts);
    parts.old.free_linear_area(MAIN);
    let old = &mut parts.old;
    old.spaces[MAIN].free.reset(&mut old.pages);
    old.maps.begin_collection(&mut old.pages);
    let used_before = parts.used_bytes();
    mark(parts, world, &mut work);
    start_sweeping(parts);
    evacuate(parts, world, &candidates, &mut work)?;
    parts.remember_anew(world);
    parts.old.order_pages();
    parts.old.end_cycle();
    work.swept_bytes = used_before.saturating_sub(work.marked_bytes);
    Ok(work)
}

/// The pages to empty, in order.
fn choose_candidates(parts: &mut Parts) -> Vec<u32> {
    if parts.compact == Compact::Never {
        return Vec::new();
    }
    let always = parts.compact == Compact::Always;
    let percent = parts.free_percents.pop();
    let percent = percent.map_or(EVACUATION_FREE_PERCENT, |percent| percent as usize);
    let old = &mut parts.old;
    let area = old.pages.area_bytes();
    let least_free = percent * (area / 100);
    let main = &old.spaces[MAIN];
    let allocating = (main.top != main.limit).then(|| old.pages.number(main.top));
    let mut pages: Vec<(usize, u32)> = Vec::new();
    for page in old.pages.of(&main.list) {
        let allocated = old.pages[page].allocated_bytes as usize;
        if Some(page) != allocating
            && old.pages[page].base_bytes == 0
            && !old.pages[page].stays
            && (always || area - allocated >= least_free)
        {
            pages.push((allocated, page));
        }
    }
    sort::sort(&mut pages, |a, b| a.0 < b.0);
    let mut count = 0;
    let mut total = 0;
    for &(live, _) in &pages {
        if always || total + live <= EVACUATION_QUOTA_BYTES {
            count += 1;
            total += live;
        }
    }
    if !always && count == total.div_ceil(area) {
        count = 0;
    }
    let candidates: Vec<u32> = pages[..count].iter().map(|(_, page)| *page).collect();
    for &page in &candidates {
        old.pages[page].candidate = true;
    }
    candidates
}

/// Marks everything alive: roots, then objects that they reach. Tells the world about the others.
fn mark<W: World>(parts: &mut Parts, world: &mut W, work: &mut Work) {
    mark_own(parts);
    let mut roots = Vec::new();
    let mut others = false;
    if let Some(array) = parts.pending_array {
        mark_object(parts, array, work);
    }
    for slot in 0..world.slots() {
        let Some(object) = world.object(slot) else { continue };
        if object.root {
            mark_body(parts, object.address, work);
            if others {
                roots.push(slot);
            }
        } else if !others {
            others = true;
            roots.extend((0..slot).filter(|&slot| world.object(slot).is_some()));
        }
    }
    if others {
        while let Some(slot) = roots.pop() {
            world.fields(slot, &mut |target| {
                if let Some(object) = world.object(target)
                    && mark_body(parts, object.address, work)
                {
                    roots.push(target);
                }
            });
        }
        for slot in 0..world.slots() {
            if world
                .object(slot)
                .is_some_and(|object| !object.root && !parts.is_marked(object.address))
            {
                world.reclaimed(slot);
            }
        }
    }
}

/// Marks the runtime's own objects, which do not count as the workload's work.
fn mark_own(parts: &mut Parts) {
    for &start in &parts.own {
        let page = parts.old.pages.number(start);
        let offset = start - parts.old.pages.start(page);
        let books = &mut parts.old.pages[page];
        books.mark(offset);
        // SAFETY: the runtime's own objects have headers.
        books.live_bytes += unsafe { object::bytes(start) } as u32;
    }
}

/// Marks an object of the workload with all its parts; false: it was marked already.
fn mark_body(parts: &mut Parts, body: std::ptr::NonNull<u8>, work: &mut Work) -> bool {
    let start = parts.start_of(body);
    // SAFETY: the world's objects are this heap's; elements have their array object's address.
    let array =
        unsafe { (object::header(start).kind == Kind::Elements).then(|| object::link(start)) };
    let fresh = mark_object(parts, start, work);
    if let Some(array) = array.filter(|_| fresh) {
        mark_object(parts, array, work);
    }
    fresh
}

fn mark_object(parts: &mut Parts, start: usize, work: &mut Work) -> bool {
    let page = parts.old.pages.number(start);
    let offset = start - parts.old.pages.start(page);
    let books = &mut parts.old.pages[page];
    if !books.mark(offset) {
        return false;
    }
    let bytes = if books.large_bytes == 0 {
        // SAFETY: marked objects have headers.
        let bytes = unsafe { object::header(start) }.bytes;
        books.live_bytes += bytes as u32;
        bytes as u64
    } else {
        books.large_bytes
    };
    work.marked_objects += 1;
    work.marked_bytes += bytes;
    true
}

/// Releases all empty pages but one and queues the others for sweeping.
fn start_sweeping(parts: &mut Parts) {
    let old = &mut parts.old;
    let version = old.version;
    let OldGeneration { pages, spaces, sweeper, maps, .. } = &mut *old;
    spaces[MAIN].queue_for_sweeping(pages, sweeper, |pages, page| {
        pages[page].put_set_aside(&version);
    });
    sweeper.start(pages);
    maps.start_sweeping(pages);
    if let Some(cells) = &mut old.segregated {
        cells.start_sweeping(&mut old.pages);
    }
}

/// Empties the chosen pages of old space, then the pages of new space, in this order.
fn evacuate<W: World>(
    parts: &mut Parts,
    world: &mut W,
    candidates: &[u32],
    work: &mut Work,
) -> Result<(), NoRoom> {
    let new_pages = parts.new.used_pages(&parts.old.pages);
    parts.new.flip(&mut parts.old.pages);
    let local = parts.old.open_compaction_space();
    let mut buffer = Buffer::default();
    let moves: Vec<(u32, PageMove)> =
        new_pages.iter().filter_map(|&page| Some((page, move_page(parts, page)?))).collect();
    let mut result = Ok(());
    let mut aborted = Vec::new();
    for &page in candidates {
        parts.old.work.evacuated_pages += 1;
        parts.old.work.evacuated_bytes += u64::from(parts.old.pages[page].live_bytes);
        if evacuate_page(parts, world, page, local, None, work).is_err() {
            aborted.push(page);
        }
    }
    for &(page, how) in &moves {
        let bytes = u64::from(parts.old.pages[page].live_bytes);
        match how {
            PageMove::Copied => {
                result = result.and_then(|()| {
                    evacuate_page(parts, world, page, local, Some(&mut buffer), work)
                })
            }
            PageMove::ToOld => {
                work.promoted_bytes += bytes;
                parts.old.taken_bytes += bytes;
                remember_page(parts, page);
            }
            PageMove::Kept => {}
        }
    }
    parts.old.merge_compaction_spaces();
    buffer.close(&mut parts.new);
    if !candidates.is_empty() {
        world.fullest(|| parts.old.walk_bytes());
    }
    parts.free_dead_large();
    for &page in candidates {
        let old = &mut parts.old;
        if aborted.contains(&page) {
            keep_candidate(old, page);
            continue;
        }
        old.pages.unlink(&mut old.spaces[MAIN].list, page);
        old.release_page(page);
    }
    if !parts.new.rebalance(&mut parts.old.pages) {
        result = Err(NoRoom);
    }
    for &(page, how) in &moves {
        let old = &mut parts.old;
        match how {
            PageMove::Copied => {}
            PageMove::Kept => {
                old.pages[page].clear_marks();
                old.pages[page].live_bytes = 0;
            }
            PageMove::ToOld => {
                old.spaces[MAIN].size += old.pages[page].live_bytes as usize;
                old.await_sweep(page);
            }
        }
    }
    parts.new.set_age_mark(&mut parts.old.pages);
    result
}

/// Keeps a page for sweeping that could not be emptied for want of room
/// (`ReportAbortedEvacuationCandidate`): its remaining marks are those of objects that did not
/// move.
fn keep_candidate(old: &mut OldGeneration, page: u32) {
    let start = old.pages.start(page);
    let (mut live, mut offset) = (0, 0);
    while let Some(at) = old.pages[page].next_mark(offset) {
        // SAFETY: marked objects have headers.
        let bytes = unsafe { object::header(start + at) }.bytes;
        live += bytes;
        offset = at + bytes;
    }
    old.pages[page].candidate = false;
    old.pages[page].live_bytes = live as u32;
    old.spaces[MAIN].size += live;
    old.await_sweep(page);
}

/// Remembers the references of array objects on a page that became old.
fn remember_page(parts: &mut Parts, page: u32) {
    let start = parts.old.pages.start(page);
    let mut offset = 0;
    while let Some(at) = parts.old.pages[page].next_mark(offset) {
        // SAFETY: marked objects have headers.
        let header = unsafe { object::header(start + at) };
        if header.kind == Kind::Array && refers_to_young(parts, start + at, true) {
            parts.old.pages[page].remembered = true;
            parts.parted = true;
            return;
        }
        offset = at + header.bytes;
    }
}

/// Whether an array object's elements lay in new space when the evacuation began. V8 records a slot
/// when the slot's object moves, before it updates references. So elements that moved to old space
/// earlier still count as young.
fn refers_to_young(parts: &Parts, array: usize, was_young: bool) -> bool {
    // SAFETY: the caller has an array object.
    let elements = unsafe { object::link(array) };
    if elements == 0 {
        return false;
    }
    match parts.old.pages[parts.old.pages.number(elements)].owner {
        Owner::From | Owner::To => true,
        Owner::Compaction => was_young,
        _ => false,
    }
}

/// The fate of a page of new space.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageMove {
    /// Its objects are copied.
    Copied,
    /// It becomes a page of old space.
    ToOld,
    /// It stays in new space.
    Kept,
}

/// Decides a page's fate, and moves the page if it moves as a whole; `None`: nothing on it lives.
fn move_page(parts: &mut Parts, page: u32) -> Option<PageMove> {
    let live = parts.old.pages[page].live_bytes as usize;
    if live == 0 {
        return None;
    }
    let threshold = PAGE_PROMOTION_PERCENT * parts.old.pages.area_bytes() / 100;
    let all = parts.old.version.promotes_all_young;
    // A page of mixed sizes cannot become a span of one class.
    if parts.old.segregated.is_some()
        || live <= threshold
        || !all && parts.new.age_mark_is_on(&parts.old.pages, page)
        || !parts.old.has_room_for(live)
    {
        return Some(PageMove::Copied);
    }
    if !all && !parts.old.pages[page].below_age_mark {
        parts.new.keep_page(&mut parts.old.pages, page);
        return Some(PageMove::Kept);
    }
    parts.new.take_page(&mut parts.old.pages, page);
    let categories = parts.old.strategy.categories();
    let books = &mut parts.old.pages[page];
    books.categories = vec![crate::page::Category::EMPTY; categories].into_boxed_slice();
    books.allocated_bytes = 0;
    books.wasted_bytes = 0;
    books.below_age_mark = false;
    books.owner = Owner::Old;
    parts.old.add_page(MAIN, page);
    Some(PageMove::ToOld)
}

/// Copies the marked objects of a page, upwards: from old space into old space, from new space by
/// age.
fn evacuate_page<W: World>(
    parts: &mut Parts,
    world: &mut W,
    page: u32,
    local: usize,
    mut buffer: Option<&mut Buffer>,
    work: &mut Work,
) -> Result<(), NoRoom> {
    let start = parts.old.pages.start(page);
    let mut offset = 0;
    while let Some(at) = parts.old.pages[page].next_mark(offset) {
        let from = start + at;
        // SAFETY: marked objects have headers.
        let header = unsafe { object::header(from) };
        let stays_young = !parts.old.version.promotes_all_young
            && !parts.new.is_old_enough(&parts.old.pages, from);
        let young = match buffer.as_mut() {
            Some(buffer) if stays_young => {
                buffer.allocate(&mut parts.new, &mut parts.old.pages, header.bytes)
            }
            _ => None,
        };
        let promoted = buffer.is_some() && young.is_none();
        let Some(to) = young.or_else(|| parts.old.allocate(local, header.bytes, Origin::Collector))
        else {
            // Objects below this address have moved away.
            parts.old.pages[page].clear_marks_before(at);
            return Err(NoRoom);
        };
        if header.kind == Kind::Array
            && young.is_none()
            && refers_to_young(parts, from, buffer.is_some())
        {
            let page = parts.old.pages.number(to);
            parts.old.pages[page].remembered = true;
            parts.parted = true;
        }
        move_object(from, to, header, world);
        if header.kind == Kind::Own {
            parts.own[header.slot as usize] = to;
        }
        if parts.pending_array == Some(from) {
            parts.pending_array = Some(to);
        }
        work.moved_objects += 1;
        work.moved_bytes += header.bytes as u64;
        if promoted {
            work.promoted_objects += 1;
            work.promoted_bytes += header.bytes as u64;
        }
        offset = at + header.bytes;
    }
    Ok(())
}
