//! The scavenger: copies live objects of new space, and promotes those that survived before.
//!
//! Source: V8's scavenger.cc and scavenger-inl.h. Objects come to lie in the order in which the
//! scavenger reaches them: first the program's table by slot, then two worklists
//! ([`crate::worklist`]). The list of promoted objects comes first once its segment is half full.
//! An array object is reached from the table, its elements from the array object.
//!
//! Each task has a compaction space, a buffer and its ends of the lists. Remembered pages, in the
//! order of their space, and the program's table are items. A remembered page waits for the sweeper
//! only once it was visited. A task begins at its own part of the items and then takes any free
//! item, as in item-parallel-job.cc. In V8 tasks run at once. Here they take turns of
//! [`TURN_OBJECTS`] objects, in a fixed order, so that a run can be repeated: one of the orders
//! that V8 may have.
//!
//! Deviation: an object that the workload let go of counts as alive until the next full collection,
//! because references may still keep it.

use crate::facts::EAGER_PROMOTIONS;
use crate::heap::Parts;
use crate::new_space::Buffer;
use crate::object::{self, Header, Kind};
use crate::page::Owner;
use crate::slot_set::SlotSet;
use crate::space::MAIN;
use crate::worklist::{Pool, Worklist};
use heaplab_heap::{Origin, Work, World};
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Objects that a task visits in one turn; a single task has no turns.
pub const TURN_OBJECTS: usize = 256;

/// One task.
struct Task {
    /// Its compaction space.
    local: usize,
    buffer: Buffer,
    copied: Worklist<usize>,
    promoted: Worklist<usize>,
    /// The item that it is visiting.
    item: Option<Item>,
}

/// A source of references from the old generation to young objects.
enum Item {
    /// Array objects with young elements on this remembered page; the next one is the last.
    Page(u32, Vec<usize>),
    /// The program's table, from this word of its slot set on.
    Table(usize),
}

impl Item {
    fn page(&self) -> Option<u32> {
        match self {
            Item::Page(page, _) => Some(*page),
            Item::Table(_) => None,
        }
    }
}

/// One running scavenge.
pub struct Scavenger<'heap> {
    parts: &'heap mut Parts,
    tasks: Vec<Task>,
    /// The task whose turn it is.
    turn: usize,
    copied: Pool<usize>,
    promoted: Pool<usize>,
    /// Items that nobody has taken.
    items: Vec<Option<Item>>,
    dirty: SlotSet,
    work: Work,
}

/// Neither generation had room for a survivor.
#[derive(Debug)]
pub struct NoRoom;

impl<'heap> Scavenger<'heap> {
    /// Empties new space.
    #[inline(never)] // Profiles tell it apart.
    pub fn run<W: World>(parts: &'heap mut Parts, world: &mut W) -> Result<Work, NoRoom> {
        parts.new.flip(&mut parts.old.pages);
        let waiting = parts.old.sweeper.begin_scavenge(&parts.old.pages);
        let tasks = (0..parts.tasks).map(|_| Task {
            local: parts.old.open_compaction_space(),
            buffer: Buffer::default(),
            copied: Worklist::default(),
            promoted: Worklist::default(),
            item: None,
        });
        let tasks = tasks.collect();
        let dirty = std::mem::take(&mut parts.dirty);
        let items = items(parts);
        let visited: Vec<u32> = items.iter().flatten().filter_map(Item::page).collect();
        let mut scavenger = Scavenger {
            tasks,
            turn: 0,
            copied: Pool::default(),
            promoted: Pool::default(),
            items,
            parts,
            dirty,
            work: Work::default(),
        };
        let result = scavenger.visit_all(world);
        let Scavenger { parts, tasks, items, dirty, work, .. } = scavenger;
        parts.dirty = dirty;
        let left = tasks.iter().map(|task| &task.item).chain(&items);
        for item in left.flatten() {
            // Array objects that were not visited for want of room stay remembered.
            if let Item::Page(_, arrays) = item {
                parts.remembered_arrays.extend(arrays);
            }
        }
        if !parts.old.version.remembered_sets_stay {
            parts.free_empty_sets(visited, true);
        }
        parts.old.merge_compaction_spaces();
        parts.old.sweeper.end_scavenge(waiting);
        for task in tasks {
            task.buffer.close(&mut parts.new);
        }
        parts.promote_young_large();
        parts.new.set_age_mark(&mut parts.old.pages);
        result.map(|()| work)
    }

    /// Visits the root of the running birth, then lets tasks take turns until nothing is left.
    fn visit_all<W: World>(&mut self, world: &mut W) -> Result<(), NoRoom> {
        if let Some(pending) = self.parts.pending_array.take() {
            let array = self.evacuate(pending, world)?;
            self.parts.pending_array = Some(array);
        }
        let objects = if self.tasks.len() == 1 { usize::MAX } else { TURN_OBJECTS };
        let mut idle = 0;
        while idle < self.tasks.len() {
            idle = if self.take_turn(objects, world)? { 0 } else { idle + 1 };
            self.turn = (self.turn + 1) % self.tasks.len();
        }
        Ok(())
    }

    /// One turn: the rest of an item, a new item, or the lists. False: there was nothing to do.
    fn take_turn<W: World>(&mut self, objects: usize, world: &mut W) -> Result<bool, NoRoom> {
        let item = self.tasks[self.turn].item.take().or_else(|| self.next_item());
        match item {
            None => self.process(objects, world),
            Some(Item::Page(page, mut arrays)) => {
                let mut result = Ok(());
                for _ in 0..objects {
                    let Some(array) = arrays.pop() else { break };
                    result = self.visit_remembered(array, world);
                    if result.is_err() {
                        arrays.push(array);
                        break;
                    }
                }
                if arrays.is_empty() {
                    self.parts.old.sweeper.visited(&self.parts.old.pages, page);
                } else {
                    self.tasks[self.turn].item = Some(Item::Page(page, arrays));
                }
                result.map(|()| true)
            }
            Some(Item::Table(word)) => {
                let end = word.saturating_add(objects / 64).min(self.dirty.words());
                (word..end).try_for_each(|word| self.visit_slots(word, world))?;
                let left = end < self.dirty.words();
                self.tasks[self.turn].item = left.then_some(Item::Table(end));
                Ok(true)
            }
        }
    }

    /// The next free item, searched from this task's own part on.
    fn next_item(&mut self) -> Option<Item> {
        let items = self.items.len();
        let first = self.turn * (items / self.tasks.len()).max(1);
        (0..items).find_map(|at| self.items[(first + at) % items].take())
    }

    /// The slots of one word of the table's set.
    fn visit_slots<W: World>(&mut self, word: usize, world: &mut W) -> Result<(), NoRoom> {
        let mut left = self.dirty.word(word);
        while left != 0 {
            let slot = (word * 64) as u32 + left.trailing_zeros();
            left &= left - 1;
            let still_young = match world.object(slot) {
                None => false,
                Some(object) => {
                    let start = self.parts.start_of(object.address);
                    // SAFETY: the world's objects are this heap's; elements have their array
                    // object's address.
                    let root = unsafe {
                        let elements = object::header(start).kind == Kind::Elements;
                        if elements { object::link(start) } else { start }
                    };
                    self.visit(root, world)?
                }
            };
            if !still_young {
                self.dirty.remove(slot);
            }
        }
        Ok(())
    }

    /// An array object in old space whose elements were young.
    fn visit_remembered<W: World>(&mut self, array: usize, world: &mut W) -> Result<(), NoRoom> {
        // SAFETY: a full collection takes dead array objects out of the set.
        let elements = unsafe { object::link(array) };
        if self.visit(elements, world)? {
            self.parts.remembered_arrays.insert(array);
        }
        Ok(())
    }

    /// Evacuates an object if it is in the semi-space being emptied; returns whether it is young
    /// afterwards.
    fn visit<W: World>(&mut self, address: usize, world: &mut W) -> Result<bool, NoRoom> {
        let page = self.parts.old.pages.number(address);
        match self.parts.old.pages[page].owner {
            Owner::From => {
                let to = self.evacuate(address, world)?;
                Ok(self.parts.is_young(to))
            }
            Owner::To => Ok(true),
            Owner::YoungLarge => {
                let offset = address - self.parts.old.pages.start(page);
                if self.parts.old.pages[page].mark(offset) {
                    self.push_promoted(address);
                    let bytes = self.parts.old.pages[page].large_bytes;
                    self.count(bytes as usize, true);
                }
                // The scavenger keeps the slot of a large object until its next run.
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn push_promoted(&mut self, address: usize) {
        self.tasks[self.turn].promoted.push(address, &mut self.promoted);
    }

    fn count(&mut self, bytes: usize, promoted: bool) {
        self.work.moved_objects += 1;
        self.work.moved_bytes += bytes as u64;
        if promoted {
            self.work.promoted_objects += 1;
            self.work.promoted_bytes += bytes as u64;
        }
    }

    /// Copies an object into new space, or into old space if the object is old enough or new space
    /// is full.
    fn evacuate<W: World>(&mut self, from: usize, world: &mut W) -> Result<usize, NoRoom> {
        // SAFETY: objects that are reached have headers.
        let header = unsafe { object::header(from) };
        let parts = &mut *self.parts;
        let Task { buffer, local, copied, promoted, .. } = &mut self.tasks[self.turn];
        let promote = parts.new.is_old_enough(&parts.old.pages, from);
        let young = if promote {
            None
        } else {
            buffer.allocate(&mut parts.new, &mut parts.old.pages, header.bytes)
        };
        let to = young
            .or_else(|| parts.old.allocate(*local, header.bytes, Origin::Collector))
            .or_else(|| buffer.allocate(&mut parts.new, &mut parts.old.pages, header.bytes))
            .ok_or(NoRoom)?;
        move_object(from, to, header, world);
        let is_young = parts.is_young(to);
        if is_young {
            copied.push(to, &mut self.copied);
        } else {
            promoted.push(to, &mut self.promoted);
        }
        self.count(header.bytes, !is_young);
        Ok(to)
    }

    /// Visits the references of copied and promoted objects, until both lists are empty or `most`
    /// objects were visited. False: there was none.
    fn process<W: World>(&mut self, most: usize, world: &mut W) -> Result<bool, NoRoom> {
        let mut visited = 0;
        loop {
            let before = visited;
            while visited < most && self.tasks[self.turn].promoted.pushed() < EAGER_PROMOTIONS {
                let next = self.tasks[self.turn].copied.pop(&mut self.copied);
                let Some(address) = next else { break };
                self.visit_fields(address, world)?;
                visited += 1;
            }
            while visited < most {
                let next = self.tasks[self.turn].promoted.pop(&mut self.promoted);
                let Some(address) = next else { break };
                if self.visit_fields(address, world)? {
                    self.parts.remember(address);
                }
                visited += 1;
            }
            if visited == before || visited >= most {
                return Ok(visited > 0);
            }
        }
    }

    /// Visits the one reference that the heap itself knows: from an array object to its elements.
    /// Returns whether they are young.
    fn visit_fields<W: World>(&mut self, address: usize, world: &mut W) -> Result<bool, NoRoom> {
        // SAFETY: entries of the lists are objects; an array object has its elements' address.
        unsafe {
            if object::header(address).kind != Kind::Array {
                return Ok(false);
            }
            let elements = object::link(address);
            // A pending array object has none yet.
            if elements == 0 { Ok(false) } else { self.visit(elements, world) }
        }
    }
}

/// Remembered pages in the order of their space, each with its array objects that have young
/// elements; then the table.
fn items(parts: &mut Parts) -> Vec<Option<Item>> {
    let arrays = std::mem::take(&mut parts.remembered_arrays);
    let pages = &parts.old.pages;
    let mut by_page: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for array in arrays.into_iter().rev() {
        by_page.entry(pages.number(array)).or_default().push(array);
    }
    let space = pages.of(&parts.old.spaces[MAIN].list);
    let of_space = space.into_iter().filter_map(|page| match by_page.remove(&page) {
        None => pages[page].has_remembered_set().then(|| Item::Page(page, Vec::new())),
        Some(arrays) => Some(Item::Page(page, arrays)),
    });
    let mut items: Vec<Option<Item>> = of_space.map(Some).collect();
    // Pages of a segregated old space are in no list.
    items.extend(by_page.into_iter().map(|(page, arrays)| Some(Item::Page(page, arrays))));
    items.push(Some(Item::Table(0)));
    items
}

/// Copies an object and updates every holder of its address.
pub fn move_object<W: World>(from: usize, to: usize, header: Header, world: &mut W) {
    // SAFETY: `from` is an object, `to` was allocated for it; this function keeps partners'
    // addresses up to date.
    unsafe {
        object::copy(from, to, header);
        match header.kind {
            Kind::Array => {
                let elements = object::link(to);
                if elements != 0 {
                    object::set_link(elements, to);
                }
                return;
            }
            Kind::Elements => object::set_link(object::link(to), to),
            Kind::Own => return,
            _ => {}
        }
    }
    let body = |start| NonNull::new(object::body(start, header.kind, header.align_bits) as *mut u8);
    // A dead but remembered array object keeps its elements; their slot may hold another object.
    let held = world.object(header.slot).map(|object| object.address);
    if let Some(moved) = body(to).filter(|_| held.is_some() && held == body(from)) {
        world.moved(header.slot, moved);
    }
}
