//! How an arena's chunks come and go: from the pool, from those that a reset kept, and back.

use super::Arena;
use super::head::Chunk;
use super::seeds::First;
use crate::pool::Lines;
use crate::pool::shape::GRANULE_LINES;
use crate::pool::shards::{Held, Shard, home};
use crate::space::Shared;
use crate::{Error, Reclaim};
use heaplab_buddy::marks::mark;

/// Where idle memory stays until a trim anyway, the committed part grows by at least this much,
/// because each step is a visit to the pool. Less than [`POPULATE_BYTES`], so that unused pages do
/// not become resident.
const COMMIT_BYTES_KEPT: usize = 16 << 10;
/// And by at least this much under huge pages: part of a huge page is resident whether committed or
/// not.
const COMMIT_BYTES_HUGE: usize = 64 << 10;
pub(super) const COMMIT_BYTES_MAX: usize = 1 << 20;
/// From this size on, one call populates a fresh part instead of a fault a page, which saves a
/// seventh of a page's cost and more (`cargo xtask bench elastic --only fresh`). At 32 KB it saves
/// half as much or nothing, less than it costs to populate pages that nobody touches, as inside of
/// larger blocks.
const POPULATE_BYTES: usize = 256 << 10;
/// And up to this one; larger parts than an arena's steps are single blocks.
const POPULATE_BYTES_MAX: usize = 2 * COMMIT_BYTES_MAX;
/// How many of the chunks kept by a reset are asked for room before a new one is taken.
const SPARES_LOOKED_AT: usize = 8;

impl Shared {
    /// The address at which a line begins.
    #[inline]
    pub(crate) fn line_address(&self, line: u32) -> *mut u8 {
        self.reservation.base().as_ptr().wrapping_add(self.shape.line_offset(line))
    }

    /// How much of a large chunk is committed at a time at least.
    pub(super) fn commit_bytes_min(&self) -> usize {
        match (self.options.reclaim, self.options.huge_pages) {
            (Reclaim::AtTrim, true) => COMMIT_BYTES_HUGE,
            (Reclaim::AtTrim, false) => COMMIT_BYTES_KEPT,
            _ => 0,
        }
    }

    /// Populates pages that will be written soon anyway. Not those of a single huge block, which
    /// may hardly be used; nor huge pages, most of which are there already.
    pub(super) fn populate(&self, range: std::ops::Range<usize>) {
        if !self.options.huge_pages && (POPULATE_BYTES..=POPULATE_BYTES_MAX).contains(&range.len())
        {
            // Where the kernel cannot, pages come at their first touch.
            let _ = self.reservation.populate(range);
        }
    }
}

/// The first chunk of an arena, with room for `beside` bytes next to its link. Small ones prefer a
/// hole of nearly the wanted size, so that an arena starts where it can go on.
#[inline]
pub(super) fn take_first_chunk(
    shared: &Shared,
    first: First,
    beside: usize,
) -> Result<Chunk, Error> {
    let need = shared.shape.lines_for(beside + size_of::<super::head::Link>()) as u32;
    if first.lines == 0 || need > GRANULE_LINES {
        return take_chunk(shared, beside, first.bytes);
    }
    let lines = (need, first.lines.max(need), first.hole);
    shared.shards.take_lines(home(), lines, &shared.reservation).map(Chunk::of_lines)
}

/// A chunk with room for `room` bytes besides its links, of `want` bytes if they can be had.
pub(super) fn take_chunk(shared: &Shared, room: usize, want: usize) -> Result<Chunk, Error> {
    let shape = shared.shape;
    if let Some((need, wanted)) = small_lines(shared, room, want) {
        let lines = shared.shards.take_lines(home(), (need, wanted, 0), &shared.reservation)?;
        return Ok(Chunk::of_lines(lines));
    }
    let links = size_of::<super::head::Link>() + size_of::<super::head::LargeLink>();
    let need = shape.whole_granules(room + links);
    let bytes = need.max(want.min(shape.root_bytes()));
    let handy = need.max(shape.whole_granules(shared.commit_bytes_min().min(bytes)));
    let large = match shared.shards.take_large(home(), bytes, handy, &shared.reservation) {
        Err(Error::LimitReached { .. }) if need < handy => {
            mark("a chunk committed as far as the request needs: the limit allows no more");
            shared.shards.take_large(home(), bytes, need, &shared.reservation)
        }
        Err(Error::AddressSpace { .. }) if need < bytes => {
            mark("a chunk as large as the request: there are no addresses for more");
            shared.shards.take_large(home(), need, need, &shared.reservation)
        }
        outcome => outcome,
    }?;
    let chunk = Chunk::of_large(&large, shape.line_bytes());
    shared.populate(large.range.end - need..large.range.end);
    Ok(chunk)
}

/// Lines for `room` bytes and for `want` bytes in a chunk of at most a granule; `None` if the chunk
/// must be larger.
#[inline]
pub(super) fn small_lines(shared: &Shared, room: usize, want: usize) -> Option<(u32, u32)> {
    let (shape, links) = (shared.shape, size_of::<super::head::Link>());
    let lines = |bytes: usize| shape.lines_for(bytes) as u32;
    let need = lines(room + links);
    (room + links <= shape.granule_bytes() && want <= shape.granule_bytes())
        .then(|| (need, lines(want).max(need)))
}

/// So many chunks are returned before the lock is let go for a moment.
const RETURNED_AT_ONCE: usize = 32;

/// Returns the chunks of a list while their arena lives, then reclaims by policy.
pub(super) fn return_and_reclaim(shared: &Shared, top: u32) {
    if let Some(idle_bytes) = return_chunks(shared, [top, 0], |_, _, _| false) {
        shared.after_return(idle_bytes);
    }
}

/// Returns the chunks of lists that begin with these tops (0: an empty list). Returns the most
/// bytes that are then idle in one of their shards. `last` runs in the last visit. If it returns
/// true, nothing of the space is used afterwards, and the result is `None`.
///
/// A pointer, because a reference would have to be valid until this returns.
pub fn return_chunks(
    shared: *const Shared,
    lists: [u32; 2],
    last: impl FnOnce(&Shard, &mut Held<'_>, usize) -> bool,
) -> Option<usize> {
    // SAFETY: the caller holds something that keeps the space alive, until `last` gives that up.
    let shared = unsafe { &*shared };
    let (mut idle_bytes, mut returned) = (0, 0);
    let mut visited: Option<(&Shard, Held<'_>)> = None;
    for mut top in lists {
        while top != 0 {
            // SAFETY: the chunk was its arena's, whose last act this is; its link stays until the
            // pool has the chunk.
            let chunk = unsafe { super::read_chunk(shared.line_address(top), top) };
            top = chunk.other;
            // Links unread since their chunks were retired are out of the cache; fetch them while
            // this chunk is returned.
            for older in [top, chunk.older[0], chunk.older[1]] {
                fetch(shared.line_address(older).wrapping_sub(size_of::<super::Link>()));
            }
            // An arena that stayed with one thread has all its chunks in one shard.
            let shard = shared.shards.of(chunk.top - chunk.lines);
            if visited.as_ref().is_none_or(|(of, _)| !std::ptr::eq(*of, shard))
                || returned % RETURNED_AT_ONCE == 0
            {
                idle_bytes =
                    idle_bytes.max(visited.take().map_or(0, |(_, held)| held.idle_bytes()));
                visited = Some((shard, shard.lock()));
            }
            if let Some((_, held)) = &mut visited {
                give(held, &chunk, shared);
            }
            returned += 1;
        }
    }
    let Some((shard, mut held)) = visited else { return Some(idle_bytes) };
    let idle_bytes = idle_bytes.max(held.idle_bytes());
    if last(shard, &mut held, idle_bytes) { None } else { Some(idle_bytes) }
}

/// Returns one chunk to the shard it came from.
#[inline(always)]
pub(super) fn give(held: &mut Held<'_>, chunk: &Chunk, shared: &Shared) {
    match chunk.to_large(shared.shape.line_bytes()) {
        Some(large) => {
            if chunk.alone.is_some() {
                held.forget_alone(chunk.top);
            }
            held.give_large(&large);
        }
        None => held.give_small(Lines { first: chunk.top - chunk.lines, count: chunk.lines }),
    }
}

/// Prefetches the cache line of an address on x86-64. Elsewhere the line comes when it is read.
#[inline(always)]
fn fetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect visible to the program, for any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

impl Arena {
    /// The first of the examined chunks kept by a reset that has the room, committed as far as
    /// needed.
    pub(super) fn take_spare(&self, room: usize) -> Result<Option<Chunk>, Error> {
        let (shared, head) = (self.shared(), self.head());
        let shape = shared.shape;
        let (mut before, mut top) = (None, head.spare.get());
        for _ in 0..SPARES_LOOKED_AT {
            if top == 0 {
                break;
            }
            let mut chunk = self.chunk(top);
            let need = room + chunk.link_bytes();
            if need > chunk.lines as usize * shape.line_bytes() {
                top = chunk.other;
                before = Some(chunk);
                continue;
            }
            if let Some(mut large) = chunk.to_large(shape.line_bytes())
                && need > large.committed_bytes
            {
                mark("a chunk kept by a reset is committed further");
                let committed = large.committed_bytes;
                let step = shape.whole_granules(need);
                shared.shards.commit_large(&mut large, step, step, &shared.reservation)?;
                shared.populate(large.range.end - step..large.range.end - committed);
                chunk = Chunk { other: chunk.other, ..Chunk::of_large(&large, shape.line_bytes()) };
            }
            mark("a chunk kept by a reset is used");
            match before {
                Some(before) => self.write_chunk(&Chunk { other: chunk.other, ..before }),
                None => head.spare.set(chunk.other),
            }
            return Ok(Some(chunk));
        }
        Ok(None)
    }

    /// For a block that neither a root nor a spare chunk holds: returns spare runs of roots, among
    /// those examined, to the pool. Otherwise they would pile up when each such block is a little
    /// larger than the one before. Returns whether there were any.
    pub(super) fn return_spare_runs(&self) -> bool {
        let (shared, head) = (self.shared(), self.head());
        let root_lines = shared.shape.lines_for(shared.shape.root_bytes()) as u32;
        let (mut before, mut top, mut returned): (Option<Chunk>, u32, bool) =
            (None, head.spare.get(), false);
        for _ in 0..SPARES_LOOKED_AT {
            if top == 0 {
                break;
            }
            let chunk = self.chunk(top);
            top = chunk.other;
            if chunk.lines <= root_lines {
                before = Some(chunk);
                continue;
            }
            mark("a spare run of roots goes back");
            match &mut before {
                Some(before) => {
                    before.other = top;
                    self.write_chunk(before);
                }
                None => head.spare.set(top),
            }
            // Saturated counts are wrong already.
            head.owned_lines.set(head.owned_lines.get().saturating_sub(chunk.lines));
            self.write_chunk(&Chunk { other: 0, ..chunk.clone() });
            return_and_reclaim(shared, chunk.top);
            returned = true;
        }
        returned
    }
}
