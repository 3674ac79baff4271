//! The heap: its parts, the table's write barrier, the start of collections, and their records.
//!
//! Source: V8's heap.cc.

mod births;

use crate::counts::CountsBy;
use crate::facts::{self, ELEMENTS_HEADER_BYTES, PAGE_BYTES, WORD_BYTES};
use crate::map_space::MapSpace;
use crate::mark_compact;
use crate::new_space::NewSpace;
use crate::object::{self, Kind};
use crate::pacing::Pacing;
use crate::page::{Owner, Pages};
use crate::scavenger::{NoRoom, Scavenger};
use crate::slot_set::SlotSet;
use crate::space::{MAIN, OldGeneration};
use crate::spec::{Compact, Shape, Spec};
use heaplab_heap::{
    Ask, Birth, Collected, Collection, FreeLists, OutOfMemory, SpaceChange, SpaceState, Work, World,
};
use std::collections::BTreeSet;
use std::ptr::NonNull;

/// The kind of a collection of new space alone.
const SCAVENGE: &str = "scavenge";

/// Everything that collections work on.
#[derive(Debug)]
pub struct Parts {
    /// Old space, and all pages.
    pub old: OldGeneration,
    /// New space.
    pub new: NewSpace,
    /// Pages of young large objects, oldest first.
    pub young_large: Vec<u32>,
    /// Pages of old large objects.
    pub old_large: Vec<u32>,
    /// Slots whose object may be young.
    pub dirty: SlotSet,
    /// Array objects in old space whose elements are young.
    pub remembered_arrays: BTreeSet<usize>,
    /// A full collection promoted an array object and left its elements young.
    pub parted: bool,
    /// An array object whose elements are being allocated.
    pub pending_array: Option<usize>,
    /// Addresses of the runtime's own objects, if known.
    pub own: Vec<usize>,
    /// The pages that a full collection empties.
    pub compact: Compact,
    /// Tasks of a scavenge.
    pub tasks: usize,
    /// The rest of [`Spec::free_percents`], for full collections to come; the next one is the last.
    pub free_percents: Vec<u32>,
}

impl Parts {
    /// Start of the object with this body.
    #[inline]
    pub fn start_of(&self, body: NonNull<u8>) -> usize {
        let before = body.as_ptr() as usize - WORD_BYTES;
        // SAFETY: the word before a body is the object's header, the address of its array object,
        // or a filler that leads back to the object's start.
        let header = unsafe { object::header(before) };
        match header.kind {
            Kind::Plain => before,
            // SAFETY: as above; an address has the low bits of no kind.
            Kind::Filler if unsafe { *(before as *const u64) } & 7 == Kind::Filler as u64 => {
                before + WORD_BYTES - header.bytes
            }
            _ => before + WORD_BYTES - ELEMENTS_HEADER_BYTES,
        }
    }

    /// Whether an address is in new space.
    pub fn is_young(&self, address: usize) -> bool {
        matches!(
            self.old.pages[self.old.pages.number(address)].owner,
            Owner::To | Owner::From | Owner::YoungLarge
        )
    }

    /// Whether the object with this body is marked.
    pub fn is_marked(&self, body: NonNull<u8>) -> bool {
        let start = self.start_of(body);
        let page = self.old.pages.number(start);
        self.old.pages[page].is_marked(start - self.old.pages.start(page))
    }

    /// Bytes in objects of all spaces, dead objects included.
    pub fn used_bytes(&self) -> u64 {
        let large =
            |list: &[u32]| list.iter().map(|&page| self.old.pages[page].large_bytes).sum::<u64>();
        (self.old.used_bytes() + self.old.maps.used_bytes() + self.new.size(&self.old.pages)) as u64
            + large(&self.young_large)
            + large(&self.old_large)
    }

    /// Bytes of the world's objects in all spaces.
    fn live_bytes<W: World>(&self, world: &W) -> u64 {
        let bytes = |body: NonNull<u8>| {
            let start = self.start_of(body);
            let large_bytes = self.old.pages[self.old.pages.number(start)].large_bytes;
            // SAFETY: the world's objects are this heap's, and have headers.
            let header = unsafe { object::header(start) };
            let array = if header.kind == Kind::Elements {
                // SAFETY: elements have their array object's address.
                unsafe { object::bytes(object::link(start)) as u64 }
            } else {
                0
            };
            array + if large_bytes == 0 { header.bytes as u64 } else { large_bytes }
        };
        let objects = (0..world.slots()).filter_map(|slot| world.object(slot));
        objects.map(|object| bytes(object.address)).sum()
    }

    /// After a scavenge: makes marked young large objects old and frees the others.
    pub fn promote_young_large(&mut self) {
        for page in std::mem::take(&mut self.young_large) {
            if self.take_mark(page) {
                self.old.pages[page].owner = Owner::OldLarge;
                self.old.old_large_bytes += self.old.pages[page].large_bytes as usize;
                self.old_large.push(page);
            } else {
                self.release_large(page);
            }
        }
    }

    /// After marking: makes marked large objects old and frees the others.
    pub fn free_dead_large(&mut self) {
        for page in std::mem::take(&mut self.old_large) {
            if self.take_mark(page) {
                self.old_large.push(page);
            } else {
                self.old.old_large_bytes -= self.old.pages[page].large_bytes as usize;
                self.release_large(page);
            }
        }
        self.promote_young_large();
    }

    /// Whether the old generation has room for everything young. Without it a full collection
    /// begins instead of a scavenge (`SelectGarbageCollector`).
    fn can_promote_all(&self) -> bool {
        let large = self.young_large.iter().map(|&page| self.large_committed(page));
        self.old.has_room_for(self.new.capacity_pages * PAGE_BYTES + large.sum::<usize>())
    }

    fn take_mark(&mut self, page: u32) -> bool {
        let offset = self.old.pages.area(page) - self.old.pages.start(page);
        let marked = self.old.pages[page].is_marked(offset);
        self.old.pages[page].clear_marks();
        marked
    }

    fn release_large(&mut self, page: u32) {
        self.old.large_bytes -= self.large_committed(page);
        self.old.pages.release(page);
    }

    /// Bytes that V8 commits for a large object: its page's header and itself, rounded up to whole
    /// pages of the system.
    pub fn large_committed(&self, page: u32) -> usize {
        let bytes = self.old.version.header_bytes() + self.old.pages[page].large_bytes as usize;
        bytes.next_multiple_of(facts::SYSTEM_PAGE_BYTES)
    }
}

/// V8's heap under one strategy.
#[derive(Debug)]
pub struct V8Heap {
    pub(crate) parts: Parts,
    pub(crate) spec: Spec,
    collections: Vec<Collection>,
    births: u64,
    /// Number of births at which `every` forces the next collection.
    forced_at: u64,
    pacing: Pacing,
    born_bytes: u64,
    live_bytes: u64,
    pauses: bool,
    /// A collection had no room for a survivor.
    ended: bool,
    /// Losses at the start of the last full collection, in sentences; `None`: not watched.
    lost_before: Option<Vec<String>>,
    /// Work of collections; the rest is the program's.
    collecting: CountsBy,
}

impl V8Heap {
    /// A heap without a page of old space: the state of a runtime whose own objects fill their
    /// pages.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new(spec: Spec) -> Result<V8Heap, heaplab_address_space::Error> {
        let reserved = spec.reserved_bytes();
        let mut pages = Pages::new(reserved, spec.version.header_bytes())?;
        let capacity_pages = spec.semi_space_bytes / PAGE_BYTES;
        let shape = || heaplab_address_space::Error::Shape {
            bytes: 2 * spec.semi_space_bytes,
            align_bytes: PAGE_BYTES,
        };
        let new = NewSpace::new(&mut pages, capacity_pages).ok_or_else(shape)?;
        let mut old = OldGeneration::new(
            pages,
            spec.strategy.clone(),
            spec.version,
            [spec.limit_bytes, spec.semi_space_bytes],
        );
        old.maps = MapSpace::new(spec.version.map_bytes, spec.map_order, spec.swept_whole);
        old.maps.add_base_pages(&mut old.pages, &spec.version.base_maps);
        let mut own = Vec::new();
        for page in spec.base_pages() {
            own.extend(old.add_own_page(&page, own.len()));
        }
        old.begin(spec.compact == Compact::Always);
        let parts = Parts {
            old,
            new,
            young_large: Vec::new(),
            old_large: Vec::new(),
            dirty: SlotSet::default(),
            remembered_arrays: BTreeSet::new(),
            parted: false,
            pending_array: None,
            own,
            compact: spec.compact,
            tasks: spec.tasks,
            free_percents: spec.free_percents.iter().rev().copied().collect(),
        };
        let forced_at = spec.every;
        let new_bytes = capacity_pages * spec.version.area_bytes;
        let pacing = Pacing::new(spec.overhead_percent, new_bytes, spec.limit_bytes);
        Ok(V8Heap {
            parts,
            spec,
            collections: Vec::new(),
            births: 0,
            born_bytes: 0,
            live_bytes: 0,
            pauses: false,
            ended: false,
            lost_before: None,
            collecting: CountsBy::default(),
            forced_at,
            pacing,
        })
    }

    /// The parameters.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Old space now.
    pub fn old_state(&self) -> SpaceState {
        let old = &self.parts.old;
        let waste: u64 =
            old.own_pages().iter().map(|&page| u64::from(old.pages[page].wasted_bytes)).sum();
        let cells = old.segregated.as_ref().map(|cells| cells.free_and_waste_bytes());
        let (free, rounding) = cells.unwrap_or_default();
        SpaceState {
            used_bytes: old.used_bytes() as u64,
            available_bytes: (old.spaces[MAIN].free.available() + free) as u64,
            committed_bytes: old.main_committed_bytes() as u64,
            waste_bytes: Some(waste + rounding as u64),
        }
    }

    /// Old space, with its pages and free lists.
    pub fn old(&self) -> &OldGeneration {
        &self.parts.old
    }

    /// Work of allocations in old space so far, separately for each source.
    pub fn counts(&self) -> CountsBy {
        let CountsBy { scavenges, full, .. } = self.collecting;
        CountsBy { program: self.parts.old.counts() - scavenges - full, scavenges, full }
    }

    /// Keeps each refill from now on, those of the running cycle included.
    pub fn log_refills(&mut self) {
        self.parts.old.refills.get_or_insert_default();
    }

    /// Keeps, from now on, the losses before each full collection.
    pub fn watch_losses(&mut self) {
        self.lost_before.get_or_insert_default();
    }

    /// Losses at the start of the last collection, if it was full. A full collection empties the
    /// lists that would show them.
    pub(crate) fn lost_before_the_last(&self) -> &[String] {
        let is_full = self.collections.last().is_some_and(|last| last.kind != SCAVENGE);
        self.lost_before.as_deref().filter(|_| is_full).unwrap_or(&[])
    }

    /// Refills of each cycle, the running one last; empty unless [`V8Heap::log_refills`] was
    /// called.
    pub fn refills(&self) -> &[Vec<crate::refills::Refill>] {
        self.parts.old.refills.as_ref().map_or(&[], |log| &log.cycles)
    }

    fn other_states(&self) -> [(&'static str, SpaceState); 4] {
        let parts = &self.parts;
        let pages = &parts.old.pages;
        let capacity = (parts.new.capacity_pages * pages.area_bytes()) as u64;
        let used = parts.new.size(pages) as u64;
        let new = SpaceState {
            used_bytes: used,
            available_bytes: capacity - used,
            committed_bytes: ((parts.new.to.list.length + parts.new.from.list.length) * PAGE_BYTES)
                as u64,
            waste_bytes: Some(0),
        };
        let large = |list: &[u32]| SpaceState {
            used_bytes: list.iter().map(|&page| pages[page].large_bytes).sum(),
            committed_bytes: list.iter().map(|&page| parts.large_committed(page) as u64).sum(),
            waste_bytes: Some(0),
            ..SpaceState::default()
        };
        [
            ("new", new),
            ("map", parts.old.maps.state(pages)),
            ("large", large(&parts.old_large)),
            ("new large", large(&parts.young_large)),
        ]
    }

    /// For each page of old space: waste, then nodes and bytes of each category with blocks.
    pub fn free_by_page(&self) -> Vec<crate::check::FreePage> {
        crate::check::free_by_page(&self.parts.old)
    }

    /// The free lists now, and after sweeping everything: a full collection begins with this sweep.
    fn free_lists(&mut self) -> FreeLists {
        let old = &mut self.parts.old;
        let waste_bytes = (old.spaces[MAIN].free.wasted() + old.sweeper.wasted) as u64;
        let before = crate::check::free_by_category(old);
        old.complete_sweeping();
        let minimums = old.strategy.minimums.iter();
        let smallest_bytes = minimums.map(|&minimum| minimum as u64).collect();
        FreeLists {
            smallest_bytes,
            before,
            swept: crate::check::free_by_category(old),
            waste_bytes,
        }
    }

    fn run<W: World>(
        &mut self,
        full: bool,
        cause: &'static str,
        world: &mut W,
    ) -> Result<(), OutOfMemory> {
        if self.ended {
            return Err(self.out_of_memory(None));
        }
        let (before, others) = (self.old_state(), self.other_states());
        if full && self.lost_before.is_some() {
            self.lost_before = Some(crate::losses::losses(self));
        }
        let free_lists = (full && self.spec.categories).then(|| self.free_lists());
        let began = self.pauses.then(processor_time);
        let counted = self.parts.old.counts();
        let result = if full {
            mark_compact::run(&mut self.parts, world)
        } else {
            Scavenger::run(&mut self.parts, world)
        };
        let pause_ns = began.map(|began| processor_time().saturating_sub(began));
        let counted = self.parts.old.counts() - counted;
        if full {
            self.collecting.full += counted;
        } else {
            self.collecting.scavenges += counted;
        }
        let kind = match (full, self.spec.compact) {
            (false, _) => SCAVENGE,
            (true, Compact::Never) => "mark-sweep",
            (true, _) => "mark-compact",
        };
        let spaces = others
            .into_iter()
            .zip(self.other_states())
            .map(|((name, before), (_, after))| SpaceChange { name: name.into(), before, after });
        let work = result.as_ref().copied().unwrap_or_default();
        if full {
            self.live_bytes = work.marked_bytes;
            self.pacing.collected(self.old_bytes());
        }
        let collection = Collection {
            kind: kind.into(),
            cause: cause.into(),
            births: self.births,
            born_bytes: self.born_bytes,
            before,
            after: self.old_state(),
            spaces: spaces.collect(),
            free_lists,
            work: Some(work),
            pause_ns,
        };
        self.collections.push(collection);
        if result.is_err() {
            self.ended = true;
            self.live_bytes = self.parts.live_bytes(world);
        }
        result.map(|_: Work| ()).map_err(|NoRoom| self.out_of_memory(None))
    }

    /// Bytes of old objects (`OldGenerationSizeOfObjects`).
    fn old_bytes(&self) -> usize {
        let old = &self.parts.old;
        old.used_bytes() + old.maps.used_bytes() + old.old_large_bytes
    }

    fn out_of_memory(&self, size: Option<usize>) -> OutOfMemory {
        OutOfMemory {
            size,
            live_bytes: self.live_bytes,
            committed_bytes: self.parts.old.committed_bytes() as u64,
            limit_bytes: self.parts.old.limit_bytes as u64,
        }
    }
}

/// CPU time of this thread, ns: other processes do not lengthen it, unlike elapsed time.
fn processor_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Collected for V8Heap {
    #[inline]
    fn allocate<W: World>(
        &mut self,
        birth: Birth,
        world: &mut W,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let slack = birth.align.saturating_sub(WORD_BYTES);
        let words = (birth.size.saturating_add(slack)).div_ceil(WORD_BYTES).max(1);
        if self.ended || words > self.parts.old.pages.addresses().len() / WORD_BYTES {
            return Err(self.out_of_memory(Some(birth.size)));
        }
        let body = match self.spec.shape {
            _ if Self::is_map(&birth) => self.map(birth, world)?,
            Shape::Array => self.array(birth, words, world)?,
            Shape::Plain => self.plain(birth, WORD_BYTES + words * WORD_BYTES, world)?,
            Shape::Recorded => self.plain(birth, words * WORD_BYTES, world)?,
        };
        self.births += 1;
        self.born_bytes += birth.size as u64;
        NonNull::new(body as *mut u8).ok_or_else(|| self.out_of_memory(Some(birth.size)))
    }

    #[inline]
    fn body_bytes(&self, birth: &Birth) -> usize {
        let (size, header_bytes) = match self.spec.shape {
            Shape::Recorded => (birth.size.saturating_sub(WORD_BYTES), WORD_BYTES),
            Shape::Plain => (birth.size, WORD_BYTES),
            Shape::Array => (birth.size, ELEMENTS_HEADER_BYTES),
        };
        if Self::is_map(birth) {
            size.min(self.spec.version.map_bytes - header_bytes)
        } else {
            size
        }
    }

    #[inline]
    fn stored(&mut self, slot: u32, _before: Option<NonNull<u8>>, now: Option<NonNull<u8>>) {
        if now.is_some() {
            self.parts.dirty.insert(slot);
        }
    }

    fn safepoint<W: World>(&mut self, world: &mut W) -> Result<(), OutOfMemory> {
        if self.pacing.is_due(self.old_bytes()) {
            self.run(true, "limit", world)?;
        }
        if self.spec.every == 0 || self.births < self.forced_at {
            return Ok(());
        }
        self.forced_at = self.births + self.spec.every;
        self.collect(Ask::Full, world)
    }

    fn collect<W: World>(&mut self, ask: Ask, world: &mut W) -> Result<(), OutOfMemory> {
        if self.spec.own_collections {
            return Ok(());
        }
        let full = ask == Ask::Full || !self.parts.can_promote_all();
        self.run(full, "forced", world)
    }

    fn collects_on_request(&self) -> bool {
        !self.spec.own_collections
    }

    fn has_ended(&self) -> bool {
        self.ended
    }

    fn base_free_bytes(&self) -> u64 {
        // Pages without known objects have no memory, so no free bytes either.
        let known = self.spec.base.iter().flatten().filter(|page| !page.objects.is_empty());
        let area = self.spec.version.area_bytes as u64;
        known.map(|page| area - u64::from(page.cut_bytes) - u64::from(page.live_bytes)).sum()
    }

    fn collections(&self) -> &[Collection] {
        &self.collections
    }

    fn measure_pauses(&mut self) {
        self.pauses = true;
    }
}
