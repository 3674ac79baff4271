//! A world that watches a collector: it fills every object with a pattern of its own, and checks
//! the pattern after every chance for the heap to spoil it.
//!
//! Collected heaps fail in ways that a table of addresses does not show: a freed live object, an
//! unreported move, a field overwritten by a free-list link. The witness knows the truth by itself:
//! roots, reachable objects, and the bytes of each object. Conformance lists and
//! `heaplab replay --verify` run heaps against this world; measurements with it mean nothing.

use crate::verified::first_other;
use crate::world::{Object, World};
use crate::{Collected, Violation};
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// A world that a driver can change: births, deaths and references of the workload.
pub trait Objects: World {
    /// Whether the driver tells this world of every object. `false`: the driver may leave out
    /// transient objects ([`Collected::transients`]).
    const SEES_ALL: bool = true;

    /// [`Collected::ahead`] for the driver's own entries.
    fn ahead(&self, slot: usize) {
        let _ = slot;
    }
    /// An object was born in `slot`; replaces the slot's object.
    fn born(&mut self, slot: u32, address: NonNull<u8>, size: usize);
    /// The object in `slot` died.
    fn died(&mut self, slot: u32);
    /// The program let go of the object in `slot`.
    fn released(&mut self, slot: u32);
    /// Field `field` of the object in `from` refers to the object in `to`, or to nothing.
    fn referred(&mut self, from: u32, field: u32, to: Option<u32>);
}

#[derive(Clone, Debug)]
struct Watched {
    object: Object,
    pattern: u8,
    fields: Vec<Option<u32>>,
}

/// The truth about a workload's objects.
#[derive(Debug, Default)]
pub struct Witness {
    objects: Vec<Option<Watched>>,
    /// Slot by address, as of the last [`Witness::settle`] and of births since.
    places: BTreeMap<usize, u32>,
    moved: bool,
    births: u64,
    violation: Option<Violation>,
}

impl Witness {
    /// A world of `slots` empty slots.
    pub fn new(slots: u32) -> Witness {
        Witness { objects: vec![None; slots as usize], ..Witness::default() }
    }

    /// The first broken promise.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Number and bytes of the objects that the program holds or that a held one reaches.
    pub fn reachable(&self) -> (u64, u64) {
        let mut seen = vec![false; self.objects.len()];
        let roots = self
            .objects
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.as_ref().is_some_and(|watched| watched.object.root));
        let mut work: Vec<u32> = roots.map(|(slot, _)| slot as u32).collect();
        let mut found = (0, 0);
        while let Some(slot) = work.pop() {
            let Some(Some(watched)) = self.objects.get(slot as usize) else { continue };
            if std::mem::replace(&mut seen[slot as usize], true) {
                continue;
            }
            found = (found.0 + 1, found.1 + watched.object.size as u64);
            work.extend(watched.fields.iter().flatten());
        }
        found
    }

    /// Checks contents and overlaps of every reachable object. Call it after the heap has
    /// collected.
    pub fn settle(&mut self) {
        if std::mem::replace(&mut self.moved, false) {
            self.places.clear();
            let places = self
                .objects
                .iter()
                .enumerate()
                .filter_map(|(slot, entry)| Some((entry.as_ref()?.object, slot as u32)));
            let places: Vec<(Object, u32)> = places.collect();
            for (object, slot) in places {
                self.take_place(object, slot);
            }
        }
        for slot in 0..self.objects.len() as u32 {
            self.inspect(slot);
        }
    }

    fn note(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// Enters an object among the places; sharing bytes with another is a violation.
    fn take_place(&mut self, object: Object, slot: u32) {
        let (address, size) = (object.address.as_ptr() as usize, object.size.max(1));
        let neighbour =
            self.places.range(..address + size).next_back().map(|(other, slot)| (*other, *slot));
        if let Some((other, slot)) = neighbour
            && let Some(Some(there)) = self.objects.get(slot as usize)
            && other + there.object.size.max(1) > address
        {
            let other_size = there.object.size;
            self.note(Violation::Overlap { address, size: object.size, other, other_size });
        }
        self.places.insert(address, slot);
    }

    /// Whether the object in `slot` still holds its pattern.
    fn inspect(&mut self, slot: u32) {
        let Some(Some(Watched { object, pattern, .. })) = self.objects.get(slot as usize) else {
            return;
        };
        let (object, expected) = (*object, *pattern);
        // SAFETY: the heap reports a live object of `size` bytes here. A lying heap comes only from
        // tests of this crate, on memory that stays mapped.
        let content = unsafe { std::slice::from_raw_parts(object.address.as_ptr(), object.size) };
        if let Some(offset) = first_other(content, expected) {
            let (address, size, found) =
                (object.address.as_ptr() as usize, object.size, content[offset]);
            self.note(Violation::Content { address, size, offset, expected, found });
        }
    }

    fn forget(&mut self, slot: u32) {
        if let Some(Some(watched)) = self.objects.get_mut(slot as usize).map(Option::take) {
            self.places.remove(&(watched.object.address.as_ptr() as usize));
        }
    }
}

impl World for Witness {
    fn slots(&self) -> u32 {
        self.objects.len() as u32
    }

    fn object(&self, slot: u32) -> Option<Object> {
        self.objects.get(slot as usize)?.as_ref().map(|watched| watched.object)
    }

    fn fields(&self, slot: u32, visit: &mut dyn FnMut(u32)) {
        if let Some(Some(watched)) = self.objects.get(slot as usize) {
            watched.fields.iter().flatten().for_each(|to| visit(*to));
        }
    }

    fn moved(&mut self, slot: u32, to: NonNull<u8>) {
        self.moved = true;
        if let Some(Some(watched)) = self.objects.get_mut(slot as usize) {
            watched.object.address = to;
        }
        self.inspect(slot);
    }

    fn reclaimed(&mut self, slot: u32) {
        if let Some(Some(watched)) = self.objects.get(slot as usize)
            && watched.object.root
        {
            let Object { address, size, .. } = watched.object;
            self.note(Violation::FreedLive { address: address.as_ptr() as usize, size });
        }
        self.forget(slot);
    }
}

impl Objects for Witness {
    fn born(&mut self, slot: u32, address: NonNull<u8>, size: usize) {
        self.inspect(slot);
        self.forget(slot);
        self.births += 1;
        // Neighbouring births get different patterns, and none is zero, the content of a fresh
        // page.
        let pattern = (self.births.wrapping_mul(37) % 255) as u8 + 1;
        let object = Object { address, size, root: true };
        if !self.moved {
            self.take_place(object, slot);
        }
        if self.violation.is_none() {
            // SAFETY: the heap has just given `size` bytes here, and they overlap no live object.
            unsafe { address.as_ptr().write_bytes(pattern, size) };
        }
        if let Some(entry) = self.objects.get_mut(slot as usize) {
            *entry = Some(Watched { object, pattern, fields: Vec::new() });
        }
    }

    fn died(&mut self, slot: u32) {
        self.inspect(slot);
        self.forget(slot);
    }

    fn released(&mut self, slot: u32) {
        if let Some(Some(watched)) = self.objects.get_mut(slot as usize) {
            watched.object.root = false;
        }
    }

    fn referred(&mut self, from: u32, field: u32, to: Option<u32>) {
        if let Some(Some(watched)) = self.objects.get_mut(from as usize) {
            let field = field as usize;
            if watched.fields.len() <= field {
                watched.fields.resize(field + 1, None);
            }
            watched.fields[field] = to;
        }
    }
}

/// Checks a heap's own records right after a forced full collection: counts add up, and no live
/// object is lost. A heap that ignores the request is checked for soundness alone.
///
/// # Errors
/// The first record that cannot be true.
pub fn check_after_full<H: Collected>(heap: &H, witness: &Witness) -> Result<(), Violation> {
    let (_, live) = witness.reachable();
    heap.check_deep()?;
    if !heap.collects_on_request() {
        return Ok(());
    }
    if let Some(counted) = heap.footprint().requested_bytes.filter(|counted| *counted != live) {
        return Err(Violation::Count { counted, live });
    }
    let Some(last) = heap.collections().last() else {
        return Err(Violation::Collections("a forced collection leaves no record".into()));
    };
    for (when, state) in [("before", last.before), ("after", last.after)] {
        let parts = state.used_bytes + state.available_bytes + state.waste_bytes.unwrap_or(0);
        if parts > state.committed_bytes + heap.base_free_bytes() {
            let what = format!(
                "{when} it {parts} bytes were used, available or wasted of {} committed",
                state.committed_bytes
            );
            return Err(Violation::Collections(what));
        }
    }
    Ok(())
}
