//! Sizes of structures: the bytes on the heap that a value owns, without the value itself.
//!
//! Exact, by usable size: `Box`, `Vec`, `String` and types made of them. The standard library does
//! not tell where the other collections' blocks begin. So their bytes follow from its layout: the
//! requested bytes, without the allocator's rounding.
//!
//! | type | bytes |
//! |---|---|
//! | `Rc`, `Arc` | two counts and the value; counted once a traversal, for the first owner met |
//! | `VecDeque` | capacity times the element |
//! | `HashMap`, `HashSet` | a power of two of buckets (at most 7 of 8 are used), a control byte each, and a group of them |
//! | `BTreeMap`, `BTreeSet` | nodes of 11 entries, counted: a node's keys are neighbours |
//!
//! A recording with `--dmd` finds such a block exactly, by an address within it.

use crate::Measure;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::mem::{align_of, size_of, size_of_val};
use std::rc::Rc;
use std::sync::Arc;

/// A type that owns bytes on the heap.
pub trait SizeOf {
    /// Bytes on the heap that this value owns, directly and through others.
    fn heap_bytes(&self, measure: &mut Measure) -> usize;
}

macro_rules! owns_nothing {
    ($($type:ty)*) => { $(impl SizeOf for $type {
        fn heap_bytes(&self, _: &mut Measure) -> usize { 0 }
    })* };
}
owns_nothing!(() bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);
owns_nothing!(str std::time::Duration std::time::Instant std::time::SystemTime);

impl<T: ?Sized> SizeOf for &T {
    fn heap_bytes(&self, _: &mut Measure) -> usize {
        0
    }
}

macro_rules! tuple {
    ($($name:ident)*) => { impl<$($name: SizeOf),*> SizeOf for ($($name,)*) {
        #[allow(non_snake_case)]
        fn heap_bytes(&self, measure: &mut Measure) -> usize {
            let ($($name,)*) = self;
            0 $(+ $name.heap_bytes(measure))*
        }
    } };
}
tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);

impl<T: SizeOf> SizeOf for [T] {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        self.iter().map(|item| item.heap_bytes(measure)).sum()
    }
}

impl<T: SizeOf, const N: usize> SizeOf for [T; N] {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        self[..].heap_bytes(measure)
    }
}

impl<T: SizeOf> SizeOf for Option<T> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        self.as_ref().map_or(0, |value| value.heap_bytes(measure))
    }
}

impl<T: SizeOf + ?Sized> SizeOf for Box<T> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        let block: *const T = &**self;
        measure.rust_block(block.cast(), size_of_val(&**self)) + (**self).heap_bytes(measure)
    }
}

impl<T: SizeOf> SizeOf for Vec<T> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        let bytes = self.capacity() * size_of::<T>();
        measure.rust_block(self.as_ptr().cast(), bytes) + self[..].heap_bytes(measure)
    }
}

impl SizeOf for String {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        measure.rust_block(self.as_ptr(), self.capacity())
    }
}

impl<T: SizeOf> SizeOf for VecDeque<T> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        let inside = self.as_slices().0.as_ptr();
        let own = measure.around(inside.cast(), self.capacity() * size_of::<T>());
        own + self.iter().map(|item| item.heap_bytes(measure)).sum::<usize>()
    }
}

/// The block of an `Rc` or an `Arc`: two counts before the value.
fn shared<T: SizeOf + ?Sized>(value: &T, measure: &mut Measure) -> usize {
    let inside: *const T = value;
    if !measure.first(inside.cast()) {
        return 0;
    }
    let align = std::mem::align_of_val(value).max(align_of::<usize>());
    let bytes = ((2 * size_of::<usize>()).next_multiple_of(align) + size_of_val(value))
        .next_multiple_of(align);
    // For a value without bytes the address may be the block's end.
    let inside = inside.cast::<u8>().wrapping_sub(usize::from(size_of_val(value) == 0));
    measure.around(inside.cast(), bytes) + value.heap_bytes(measure)
}

impl<T: SizeOf + ?Sized> SizeOf for Rc<T> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        shared(&**self, measure)
    }
}

impl<T: SizeOf + ?Sized> SizeOf for Arc<T> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        shared(&**self, measure)
    }
}

/// Bytes of a hash table with room for `capacity` entries of `entry` bytes.
fn table_bytes(capacity: usize, entry: usize) -> usize {
    /// Control bytes that are read at once; the table repeats as many at its end.
    const GROUP: usize = if cfg!(target_feature = "sse2") { 16 } else { 8 };
    let buckets = match capacity {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        8..=14 => 16,
        _ => (capacity * 8 / 7).next_power_of_two(),
    };
    (buckets * entry).next_multiple_of(GROUP) + buckets + GROUP
}

impl<K: SizeOf, V: SizeOf, S> SizeOf for HashMap<K, V, S> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        let bytes = table_bytes(self.capacity(), size_of::<(K, V)>());
        let own = match self.keys().next() {
            Some(key) => measure.around(std::ptr::from_ref(key).cast(), bytes),
            None => bytes,
        };
        own + self.iter().map(|(k, v)| k.heap_bytes(measure) + v.heap_bytes(measure)).sum::<usize>()
    }
}

impl<K: SizeOf, S> SizeOf for HashSet<K, S> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        let bytes = table_bytes(self.capacity(), size_of::<K>());
        let own = match self.iter().next() {
            Some(key) => measure.around(std::ptr::from_ref(key).cast(), bytes),
            None => bytes,
        };
        own + self.iter().map(|key| key.heap_bytes(measure)).sum::<usize>()
    }
}

/// The nodes of a B-tree, from the addresses of its keys in order. A node's keys lie one behind the
/// other, and one key of an inner node stands between the keys of two leaves. So runs of neighbours
/// are nodes; one address marks each node.
fn tree_bytes<K, V>(keys: impl Iterator<Item = *const K>, measure: &mut Measure) -> usize {
    /// Entries of a full node.
    const ENTRIES: usize = 11;
    // Parent, place in it, length.
    let head = size_of::<usize>() + 2 * size_of::<u16>();
    let leaf = (head + ENTRIES * (size_of::<K>() + size_of::<V>()))
        .next_multiple_of(align_of::<usize>().max(align_of::<K>()).max(align_of::<V>()));
    let mut inner = Vec::new();
    let (mut before, mut runs, mut bytes) = (std::ptr::null::<K>(), 0_usize, 0);
    for key in keys {
        let is_neighbour = before.wrapping_add(1) == key && runs % 2 == 1;
        before = key;
        if is_neighbour {
            continue;
        }
        runs += 1;
        if runs % 2 == 1 {
            bytes += measure.around(key.cast(), leaf);
        } else {
            inner.push(key as usize);
        }
    }
    inner.sort_unstable();
    let mut before = 0;
    for key in inner {
        if key != before + size_of::<K>() {
            bytes += measure.around(key as *const _, leaf + (ENTRIES + 1) * size_of::<usize>());
        }
        before = key;
    }
    bytes
}

impl<K: SizeOf, V: SizeOf> SizeOf for BTreeMap<K, V> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        let keys = self.keys().map(std::ptr::from_ref);
        let own = tree_bytes::<K, V>(keys, measure);
        own + self.iter().map(|(k, v)| k.heap_bytes(measure) + v.heap_bytes(measure)).sum::<usize>()
    }
}

impl<K: SizeOf> SizeOf for BTreeSet<K> {
    fn heap_bytes(&self, measure: &mut Measure) -> usize {
        let own = tree_bytes::<K, ()>(self.iter().map(std::ptr::from_ref), measure);
        own + self.iter().map(|key| key.heap_bytes(measure)).sum::<usize>()
    }
}
