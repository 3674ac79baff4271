//! The world of a measured replay: one entry a slot, in mapped pages written before any
//! measurement.

use crate::driver::ReplayError;
use crate::pages::{Pages, Zeroable};
use heaplab_heap::witness::Objects;
use heaplab_heap::{Object, World, prefetch};
use std::collections::HashMap;
use std::ptr::NonNull;

/// Flag in an entry's size: the program has let go of the object.
const RELEASED: u64 = 1 << 63;

#[derive(Clone, Copy)]
struct Entry {
    /// 0: the slot is empty.
    address: usize,
    /// Requested bytes, and the flag [`RELEASED`].
    size: u64,
}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for Entry {}

/// The object in each slot. References are stored apart, because few workloads have them.
pub struct Slots {
    entries: Pages<Entry>,
    fields: HashMap<u32, Vec<Option<u32>>>,
}

impl Slots {
    /// This many empty slots.
    ///
    /// # Errors
    /// The system has no memory for them.
    pub fn new(slots: u32) -> Result<Slots, ReplayError> {
        Ok(Slots { entries: Pages::zeroed(slots as usize)?, fields: HashMap::new() })
    }

    fn entry(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.as_mut_slice().get_mut(slot as usize)
    }
}

impl World for Slots {
    #[inline(always)]
    fn slots(&self) -> u32 {
        self.entries.len() as u32
    }

    #[inline(always)]
    fn object(&self, slot: u32) -> Option<Object> {
        let entry = self.entries.get(slot as usize)?;
        let address = NonNull::new(entry.address as *mut u8)?;
        Some(Object {
            address,
            size: (entry.size & !RELEASED) as usize,
            root: entry.size & RELEASED == 0,
        })
    }

    fn fields(&self, slot: u32, visit: &mut dyn FnMut(u32)) {
        if let Some(fields) = self.fields.get(&slot) {
            fields.iter().flatten().for_each(|to| visit(*to));
        }
    }

    #[inline(always)]
    fn moved(&mut self, slot: u32, to: NonNull<u8>) {
        if let Some(entry) = self.entry(slot) {
            entry.address = to.as_ptr() as usize;
        }
    }

    fn reclaimed(&mut self, slot: u32) {
        self.died(slot);
    }
}

impl Objects for Slots {
    const SEES_ALL: bool = false;

    #[inline(always)]
    fn ahead(&self, slot: usize) {
        prefetch(self.entries.as_ptr().wrapping_add(slot));
    }

    #[inline(always)]
    fn born(&mut self, slot: u32, address: NonNull<u8>, size: usize) {
        if let Some(entry) = self.entry(slot) {
            *entry = Entry { address: address.as_ptr() as usize, size: size as u64 };
        }
    }

    #[inline(always)]
    fn died(&mut self, slot: u32) {
        if let Some(entry) = self.entry(slot) {
            *entry = Entry { address: 0, size: 0 };
        }
        if !self.fields.is_empty() {
            self.fields.remove(&slot);
        }
    }

    fn released(&mut self, slot: u32) {
        if let Some(entry) = self.entry(slot) {
            entry.size |= RELEASED;
        }
    }

    fn referred(&mut self, from: u32, field: u32, to: Option<u32>) {
        let fields = self.fields.entry(from).or_default();
        let field = field as usize;
        if fields.len() <= field {
            fields.resize(field + 1, None);
        }
        fields[field] = to;
    }
}
