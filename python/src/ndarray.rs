//! NumPy's arrays of objects: what they hold, which `ndarray` shows nobody, since it has no
//! `tp_traverse`.
//!
//! An array's fields are NumPy's C interface (`PyArrayObject_fields` and `PyArray_Descr` in
//! `ndarraytypes.h`), the same in NumPy 1 and 2 as far as they are read here. Whether they are so
//! in the NumPy that runs is tried on a sample first, and where they are not, arrays show nothing.
//! Nothing of NumPy is called. Not seen: objects within the fields of structured arrays.

use super::object::{Address, word_at};

const DATA: i64 = 16;
const DIMENSION_COUNT: i64 = 24;
const DIMENSIONS: i64 = 32;
const STRIDES: i64 = 40;
const BASE: i64 = 48;
const DESCRIPTION: i64 = 56;
/// In the description.
const TYPE_NUMBER: i64 = 28;
/// `NPY_OBJECT`.
const OBJECT: i32 = 17;
/// `NPY_MAXDIMS` of NumPy 2.
const DIMENSIONS_MAX: u64 = 64;

/// What an array refers to.
pub struct Array {
    /// Whose memory it shows; 0 where that is its own.
    pub base: Address,
    /// What its items are.
    pub description: Address,
    data: u64,
    /// Lengths and strides in bytes.
    dimensions: Vec<(u64, i64)>,
}

impl Array {
    /// The fields of an array.
    pub fn of(array: Address) -> Array {
        // SAFETY: the object is an array of the NumPy whose fields were tried ([`works`]).
        let (data, count, base, description) =
            unsafe { (word_at(array, DATA), word_at(array, DIMENSION_COUNT) as u32, word_at(array, BASE), word_at(array, DESCRIPTION)) };
        let mut read = Array { base, description, data, dimensions: Vec::new() };
        // SAFETY: as above; `count` lengths and strides stand at these pointers.
        let (lengths, strides) = unsafe { (word_at(array, DIMENSIONS), word_at(array, STRIDES)) };
        if u64::from(count) <= DIMENSIONS_MAX && (count == 0 || (lengths != 0 && strides != 0)) {
            for dimension in 0..i64::from(count) {
                // SAFETY: as above.
                read.dimensions.push(unsafe { (word_at(lengths, 8 * dimension), word_at(strides, 8 * dimension) as i64) });
            }
        } else {
            read.description = 0;
        }
        read
    }

    /// Calls `visit` with the items of an array of objects that owns its memory, in their order. A
    /// view shows those of its base.
    pub fn items(&self, visit: &mut impl FnMut(u64, Address)) {
        // SAFETY: a description of an array begins with these fields.
        let holds_objects = self.description != 0 && unsafe { word_at(self.description, TYPE_NUMBER) } as i32 == OBJECT;
        if holds_objects && self.base == 0 && self.data != 0 {
            let mut number = 0;
            self.items_from(self.data, 0, &mut number, visit);
        }
    }

    fn items_from(&self, at: u64, dimension: usize, number: &mut u64, visit: &mut impl FnMut(u64, Address)) {
        let Some((length, stride)) = self.dimensions.get(dimension) else {
            // SAFETY: an item of an array of objects is a pointer to one, or null.
            let item = unsafe { word_at(at, 0) };
            if item != 0 {
                visit(*number, item);
            }
            *number += 1;
            return;
        };
        for index in 0..*length {
            let at = (at as i64).wrapping_add(index as i64 * stride) as u64;
            self.items_from(at, dimension + 1, number, visit);
        }
    }
}

/// Whether the fields are where they should be: `sample` is an array of objects, `items` are those.
pub fn works(sample: Address, items: &[Address]) -> bool {
    let mut found = Vec::new();
    let array = Array::of(sample);
    if array.dimensions.iter().map(|(length, _)| *length).product::<u64>() != items.len() as u64 {
        return false;
    }
    array.items(&mut |_, item| found.push(item));
    found == items
}
