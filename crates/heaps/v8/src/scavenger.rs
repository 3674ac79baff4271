//! The scavenger: copies what lives in new space, and promotes what has survived before.
//!
//! Source: V8's scavenger.cc and scavenger-inl.h. The order in which objects are reached decides
//! where they come to lie: first the program's table by slot, then two worklists
//! ([`crate::worklist`]), of which the list of promoted objects comes first when its segment is
//! half full. An array object is reached from the table, its elements from the array object.
//!
//! Deviation: an object that the workload let go of but that references could still keep counts as
//! alive until the next full collection. One task runs; more tasks would take turns.

use crate::facts::EAGER_PROMOTIONS;
use crate::heap::Parts;
use crate::new_space::Buffer;
use crate::object::{self, Header, Kind};
use crate::page::Owner;
use crate::space::MAIN;
use crate::worklist::Worklist;
use heaplab_heap::{Origin, Work, World};
use std::ptr::NonNull;

/// One running scavenge.
pub struct Scavenger<'heap> {
    parts: &'heap mut Parts,
    local: usize,
    buffer: Buffer,
    copied: Worklist<usize>,
    promoted: Worklist<usize>,
    work: Work,
}

/// There was no room for a survivor, in either generation.
#[derive(Debug)]
pub struct NoRoom;

impl<'heap> Scavenger<'heap> {
    /// Empties new space.
    pub fn run<W: World>(parts: &'heap mut Parts, world: &mut W) -> Result<Work, NoRoom> {
        parts.new.flip(&mut parts.old.pages);
        let local = parts.old.open_compaction_space();
        let space = parts.old.pages.of(&parts.old.spaces[MAIN].list);
        let waiting = parts.old.sweeper.begin_scavenge(&parts.old.pages, &space);
        let mut scavenger = Scavenger {
            parts,
            local,
            buffer: Buffer::default(),
            copied: Worklist::default(),
            promoted: Worklist::default(),
            work: Work::default(),
        };
        let roots = scavenger.visit_roots(world);
        let result = roots.and_then(|()| scavenger.process(world));
        let Scavenger { parts, buffer, work, .. } = scavenger;
        parts.old.merge_compaction_spaces();
        parts.old.sweeper.end_scavenge(waiting);
        buffer.close(&mut parts.new);
        parts.promote_young_large();
        parts.new.set_age_mark(&mut parts.old.pages);
        result.map(|()| work)
    }

    fn visit_roots<W: World>(&mut self, world: &mut W) -> Result<(), NoRoom> {
        if let Some(pending) = self.parts.pending_array.take() {
            let array = self.evacuate(pending, world)?;
            self.parts.pending_array = Some(array);
        }
        self.visit_remembered_arrays(world)?;
        let mut dirty = std::mem::take(&mut self.parts.dirty);
        let mut result = Ok(());
        dirty.retain(|slot| {
            let Some(body) = world.object(slot).filter(|_| result.is_ok()) else {
                return result.is_err();
            };
            let start = self.parts.start_of(body.address);
            // SAFETY: the world's objects are this heap's.
            let kind = unsafe { object::header(start) }.kind;
            // SAFETY: elements have their array object's address.
            let root = if kind == Kind::Elements { unsafe { object::link(start) } } else { start };
            match self.visit(root, world) {
                Ok(still_young) => still_young,
                Err(error) => {
                    result = Err(error);
                    true
                }
            }
        });
        self.parts.dirty = dirty;
        result
    }

    /// Array objects in old space whose elements are young: their pages come first, in the order of
    /// their space.
    fn visit_remembered_arrays<W: World>(&mut self, world: &mut W) -> Result<(), NoRoom> {
        let arrays = std::mem::take(&mut self.parts.remembered_arrays);
        for array in arrays {
            // SAFETY: a full collection takes dead array objects out of the set.
            let elements = unsafe { object::link(array) };
            if self.visit(elements, world)? {
                self.parts.remembered_arrays.insert(array);
            }
        }
        Ok(())
    }

    /// Evacuates an object that is in the semi-space being emptied; returns whether it is young
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
                    self.promoted.push(address);
                    let bytes = self.parts.old.pages[page].large_bytes;
                    self.count(bytes as usize, true);
                }
                // The scavenger keeps the slot of a large object until its next run.
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn count(&mut self, bytes: usize, promoted: bool) {
        self.work.moved_objects += 1;
        self.work.moved_bytes += bytes as u64;
        if promoted {
            self.work.promoted_objects += 1;
            self.work.promoted_bytes += bytes as u64;
        }
    }

    /// Copies an object into new space, or into old space where it is old enough or new space is
    /// full.
    fn evacuate<W: World>(&mut self, from: usize, world: &mut W) -> Result<usize, NoRoom> {
        // SAFETY: objects that are reached have headers.
        let header = unsafe { object::header(from) };
        let parts = &mut *self.parts;
        let promote = parts.new.is_old_enough(&parts.old.pages, from);
        let young = if promote {
            None
        } else {
            self.buffer.allocate(&mut parts.new, &mut parts.old.pages, header.bytes)
        };
        let to = young
            .or_else(|| parts.old.allocate(self.local, header.bytes, Origin::Collector))
            .or_else(|| self.buffer.allocate(&mut parts.new, &mut parts.old.pages, header.bytes))
            .ok_or(NoRoom)?;
        move_object(from, to, header, world);
        let is_young = self.parts.is_young(to);
        self.count(header.bytes, !is_young);
        if is_young {
            self.copied.push(to);
        } else {
            self.promoted.push(to);
        }
        Ok(to)
    }

    /// Visits what copied and promoted objects refer to, until both lists are empty.
    fn process<W: World>(&mut self, world: &mut W) -> Result<(), NoRoom> {
        loop {
            let mut done = true;
            while self.promoted.pushed() < EAGER_PROMOTIONS {
                let Some(address) = self.copied.pop() else { break };
                self.visit_fields(address, world)?;
                done = false;
            }
            while let Some(address) = self.promoted.pop() {
                if self.visit_fields(address, world)? {
                    self.remember(address);
                }
                done = false;
            }
            if done {
                return Ok(());
            }
        }
    }

    /// An old array object has young elements, or large ones that were young until now: its page
    /// gets a remembered set.
    fn remember(&mut self, array: usize) {
        let page = self.parts.old.pages.number(array);
        self.parts.old.pages[page].remembered = true;
        // SAFETY: promoted array objects that are visited have their elements' address.
        if self.parts.is_young(unsafe { object::link(array) }) {
            self.parts.remembered_arrays.insert(array);
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

/// Copies an object and tells everyone who has its address.
pub fn move_object<W: World>(from: usize, to: usize, header: Header, world: &mut W) {
    // SAFETY: `from` is an object, `to` was allocated for it; partners' addresses are kept up to
    // date by this function.
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
            _ => {}
        }
    }
    let body = object::body(to, header.kind, header.align_bits);
    if let Some(body) = NonNull::new(body as *mut u8) {
        world.moved(header.slot, body);
    }
}
