//! Births: the space of each object, and its header.
//!
//! Source: V8's factory and array builtins for the allocations of `new Array(n)`, and
//! `AllocateRawWithLightRetry` and `CollectAllAvailableGarbage` of its heap.cc: without room for a
//! birth, the heap scavenges up to twice and then runs a full collection.

use super::V8Heap;
use crate::facts::{
    self, ARRAY_BYTES, ELEMENTS_HEADER_BYTES, EMPTY_OBJECT_BYTES, MEMENTO_BYTES, REGULAR_MAX_BYTES,
    WORD_BYTES,
};
use crate::new_space::fill;
use crate::object::{self, Header, Kind};
use crate::page::Owner;
use crate::space::MAIN;
use crate::spec::Shape;
use heaplab_heap::{Birth, OutOfMemory, Place, World};

impl V8Heap {
    /// Allocates in new space. Collects as V8 would until there is room.
    fn young<W: World>(
        &mut self,
        size: usize,
        bytes: usize,
        world: &mut W,
    ) -> Result<usize, OutOfMemory> {
        if let Some(address) = self.parts.new.allocate(&mut self.parts.old.pages, bytes) {
            return Ok(address);
        }
        self.retry(size, world, |heap| heap.parts.new.allocate(&mut heap.parts.old.pages, bytes))
    }

    fn retry<W: World>(
        &mut self,
        size: usize,
        world: &mut W,
        allocate: impl FnMut(&mut V8Heap) -> Option<usize>,
    ) -> Result<usize, OutOfMemory> {
        self.retry_after([false, false, true, true], size, world, allocate)
    }

    /// Collects as often as `fulls` says, each time fully or not, until `allocate` finds room.
    #[cold]
    fn retry_after<W: World>(
        &mut self,
        fulls: [bool; 4],
        size: usize,
        world: &mut W,
        mut allocate: impl FnMut(&mut V8Heap) -> Option<usize>,
    ) -> Result<usize, OutOfMemory> {
        for full in fulls {
            // A scavenge must be able to promote everything.
            let full = full || !self.parts.can_promote_all();
            self.run(full, "allocation", world)?;
            if let Some(address) = allocate(self) {
                return Ok(address);
            }
        }
        Err(self.out_of_memory(Some(size)))
    }

    fn large<W: World>(
        &mut self,
        size: usize,
        bytes: usize,
        world: &mut W,
    ) -> Result<usize, OutOfMemory> {
        match self.take_large(bytes) {
            Some(address) => Ok(address),
            None => self.retry(size, world, |heap| heap.take_large(bytes)),
        }
    }

    /// Allocates a young large object, unless the existing ones fill as many bytes as new space
    /// may.
    fn take_large(&mut self, bytes: usize) -> Option<usize> {
        let parts = &mut self.parts;
        let young: usize =
            parts.young_large.iter().map(|&page| parts.old.pages[page].large_bytes as usize).sum();
        let capacity = parts.new.capacity_pages * parts.old.pages.area_bytes();
        if !parts.old.has_room_for(young) || young > 0 && bytes + young > capacity {
            return None;
        }
        let page = parts.old.pages.take_large(Owner::YoungLarge, bytes)?;
        parts.young_large.push(page);
        parts.old.large_bytes += parts.large_committed(page);
        Some(parts.old.pages.area(page))
    }

    /// One object of `bytes`, header included.
    pub(super) fn plain<W: World>(
        &mut self,
        birth: Birth,
        bytes: usize,
        world: &mut W,
    ) -> Result<usize, OutOfMemory> {
        let bytes = bytes.max(facts::ELEMENTS_HEADER_BYTES);
        let start = if bytes > REGULAR_MAX_BYTES {
            self.large(birth.size, bytes, world)?
        } else if birth.place == Place::Old {
            self.tenured(birth, bytes, world)?
        } else {
            self.young(birth.size, bytes, world)?
        };
        Ok(place(start, Kind::Plain, bytes, birth))
    }

    fn tenured<W: World>(
        &mut self,
        birth: Birth,
        bytes: usize,
        world: &mut W,
    ) -> Result<usize, OutOfMemory> {
        match self.parts.old.allocate(MAIN, bytes, birth.origin) {
            Some(address) => Ok(address),
            None => self.retry(birth.size, world, |heap| {
                heap.parts.old.allocate(MAIN, bytes, birth.origin)
            }),
        }
    }

    /// A JavaScript array: one allocation in compiled code, two in the runtime.
    pub(super) fn array<W: World>(
        &mut self,
        birth: Birth,
        words: usize,
        world: &mut W,
    ) -> Result<usize, OutOfMemory> {
        let elements_bytes = ELEMENTS_HEADER_BYTES + words * WORD_BYTES;
        if birth.place == Place::Old && elements_bytes <= REGULAR_MAX_BYTES - ARRAY_BYTES {
            let array = self.tenured(birth, ARRAY_BYTES + elements_bytes, world)?;
            return Ok(join([array, ARRAY_BYTES], [array + ARRAY_BYTES, elements_bytes], birth));
        }
        let head = ARRAY_BYTES + MEMENTO_BYTES;
        if words < facts::FOLDED_MAX_WORDS {
            let array = self.young(birth.size, head + elements_bytes, world)?;
            fill(array + ARRAY_BYTES, MEMENTO_BYTES);
            return Ok(join([array, ARRAY_BYTES], [array + head, elements_bytes], birth));
        }
        let array = self.young(birth.size, head, world)?;
        fill(array + ARRAY_BYTES, MEMENTO_BYTES);
        write_array(array, 0, ARRAY_BYTES, birth);
        self.parts.pending_array = Some(array);
        let elements = if elements_bytes > REGULAR_MAX_BYTES {
            self.large(birth.size, elements_bytes, world)
        } else {
            self.young(birth.size, elements_bytes, world)
        };
        let array = self.parts.pending_array.take().unwrap_or(array);
        let elements = elements?;
        if !self.parts.is_young(array) && self.parts.is_young(elements) {
            self.parts.remember(array);
        }
        Ok(join([array, ARRAY_BYTES], [elements, elements_bytes], birth))
    }

    /// Whether a birth goes to map space: maps have no alignment.
    #[inline]
    pub(super) fn is_map(birth: &Birth) -> bool {
        birth.place == Place::HiddenClass && birth.align <= WORD_BYTES
    }

    /// A map. In the shape `array` the object that has it is born just before, in new space.
    #[cold] // Arrays are the hot path.
    pub(super) fn map<W: World>(
        &mut self,
        birth: Birth,
        world: &mut W,
    ) -> Result<usize, OutOfMemory> {
        let bytes = self.parts.old.maps.map_bytes();
        if self.spec.shape != Shape::Array {
            let map = self.take_map(birth.size, world)?;
            return Ok(place(map, Kind::Plain, bytes, birth));
        }
        let object = self.young(birth.size, EMPTY_OBJECT_BYTES, world)?;
        write_array(object, 0, EMPTY_OBJECT_BYTES, birth);
        self.parts.pending_array = Some(object);
        let map = self.take_map(birth.size, world);
        let object = self.parts.pending_array.take().unwrap_or(object);
        Ok(join([object, EMPTY_OBJECT_BYTES], [map?, bytes], birth))
    }

    fn take_map<W: World>(&mut self, size: usize, world: &mut W) -> Result<usize, OutOfMemory> {
        match self.parts.old.allocate_map() {
            Some(address) => Ok(address),
            // No scavenge frees a map.
            None => self.retry_after([true; 4], size, world, |heap| heap.parts.old.allocate_map()),
        }
    }
}

fn write_array(array: usize, elements: usize, bytes: usize, birth: Birth) {
    // SAFETY: the array object was just allocated.
    unsafe {
        object::set_header(
            array,
            Header { kind: Kind::Array, align_bits: 0, bytes, slot: birth.slot },
        );
        object::set_link(array, elements);
    }
}

/// Writes an array object and its elements, each an address and bytes; returns the body.
#[inline]
fn join(
    [array, array_bytes]: [usize; 2],
    [elements, elements_bytes]: [usize; 2],
    birth: Birth,
) -> usize {
    write_array(array, elements, array_bytes, birth);
    // SAFETY: the elements were just allocated.
    unsafe { object::set_link(elements, array) };
    place(elements, Kind::Elements, elements_bytes, birth)
}

/// Writes an object's header; returns the body.
#[inline]
fn place(start: usize, kind: Kind, bytes: usize, birth: Birth) -> usize {
    let align_bits = if birth.align > WORD_BYTES { birth.align.ilog2() } else { 0 };
    // SAFETY: the object was just allocated.
    unsafe { object::set_header(start, Header { kind, align_bits, bytes, slot: birth.slot }) };
    object::lead_back(start, kind, align_bits)
}
