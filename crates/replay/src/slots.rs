//! The world of a measured replay: one entry a slot, in mapped pages written before any
//! measurement.

use crate::driver::ReplayError;
use crate::pages::{Pages, Zeroable};
use crate::system::{Anonymous, anonymous};
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
    /// Whether space is measured within collections.
    watches: bool,
    /// Measured then, since it was last taken.
    fullest: Option<Fullest>,
}

/// The space within a collection that holds two copies of objects.
#[derive(Clone, Copy, Debug)]
pub struct Fullest {
    /// By the heap's account.
    pub committed_bytes: u64,
    /// By the kernel's.
    pub anonymous: Anonymous,
}

impl Slots {
    /// This many empty slots.
    ///
    /// # Errors
    /// The system has no memory for them.
    pub fn new(slots: u32) -> Result<Slots, ReplayError> {
        Ok(Slots {
            entries: Pages::zeroed(slots as usize)?,
            fields: HashMap::new(),
            watches: false,
            fullest: None,
        })
    }

    /// Measures space within collections from now on.
    pub fn watch_collections(&mut self) {
        self.watches = true;
    }

    /// The moment within a collection that committed the most since the last call.
    pub fn take_fullest(&mut self) -> Option<Fullest> {
        self.fullest.take()
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

    fn fullest(&mut self, committed_bytes: impl FnOnce() -> u64) {
        if !self.watches {
            return;
        }
        let committed_bytes = committed_bytes();
        if self.fullest.is_none_or(|before| committed_bytes > before.committed_bytes) {
            self.fullest = anonymous().map(|anonymous| Fullest { committed_bytes, anonymous });
        }
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
