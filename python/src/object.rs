//! Objects as addresses, and what may be asked of one while the heap is walked.
//!
//! Everything here holds as long as the GIL is held and nothing is deallocated: addresses come from
//! the walk itself, and an object that was reached lives until the walk is over. [`Address`] is
//! that promise in a name.

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};

/// The address of a living object.
pub type Address = u64;

/// Handles that are no addresses: the root, and what holds objects that were not met otherwise.
pub const ROOT: u64 = 1;
pub const OTHER: u64 = 2;
/// Frames: above every address.
pub const FRAMES: u64 = 1 << 63;

/// Whether a handle is an object's.
#[inline]
pub fn is_address(handle: u64) -> bool {
    handle != ROOT && handle != OTHER && handle & FRAMES == 0
}

/// Its address.
pub fn address(object: &Bound<'_, PyAny>) -> Address {
    object.as_ptr() as u64
}

/// As CPython has it.
pub fn pointer(object: Address) -> *mut ffi::PyObject {
    object as *mut ffi::PyObject
}

/// Its type.
#[inline]
pub fn type_of(object: Address) -> Address {
    // SAFETY: the object lives (see the module); its type is a field of every object.
    unsafe { ffi::Py_TYPE(pointer(object)) as u64 }
}

/// The 8 bytes at an offset from an object.
///
/// # Safety
/// The object must be of a type that has a pointer there.
#[inline]
pub unsafe fn word_at(object: Address, offset: i64) -> u64 {
    // SAFETY: promised by the caller; fields of objects are aligned to 8 bytes.
    unsafe { *((object as i64 + offset) as *const u64) }
}

/// The number of items of an object of variable size.
#[inline]
pub fn var_size(object: Address) -> u64 {
    // SAFETY: only asked of types with an item size, whose objects begin with PyVarObject: the
    // count follows the type.
    (unsafe { word_at(object, 16) } as i64).unsigned_abs()
}

/// How many references to it there are.
pub fn references_to(object: Address) -> usize {
    // SAFETY: the object lives.
    usize::try_from(unsafe { ffi::Py_REFCNT(pointer(object)) }).unwrap_or(0)
}

/// Whether the garbage collector knows the object.
pub fn is_tracked(object: Address) -> bool {
    // SAFETY: the object lives; the function looks at its header only if its type has one.
    unsafe { ffi::PyObject_GC_IsTracked(pointer(object)) == 1 }
}

/// A type's `tp_traverse`.
pub fn traverse_of(type_object: Address) -> Option<ffi::traverseproc> {
    // SAFETY: `type_object` is a type; the slot is a traverseproc or null.
    unsafe {
        let slot = ffi::PyType_GetSlot(type_object as *mut ffi::PyTypeObject, ffi::Py_tp_traverse);
        (!slot.is_null()).then(|| std::mem::transmute::<*mut c_void, ffi::traverseproc>(slot))
    }
}

/// A type's flags.
pub fn flags_of(type_object: Address) -> u64 {
    // SAFETY: `type_object` is a type.
    unsafe { ffi::PyType_GetFlags(type_object as *mut ffi::PyTypeObject) }
}

/// Calls `visit` with every object that `traverse` shows. Nothing may be done to the heap in it.
#[inline]
pub fn traverse<V: FnMut(Address)>(object: Address, traverse: ffi::traverseproc, visit: &mut V) {
    extern "C" fn called<V: FnMut(Address)>(target: *mut ffi::PyObject, visit: *mut c_void) -> c_int {
        // SAFETY: `visit` is the closure given below, borrowed until the traversal returns.
        let visit = unsafe { &mut *visit.cast::<V>() };
        if !target.is_null() {
            visit(target as u64);
        }
        0
    }
    // SAFETY: `traverse` is the slot of the object's type; it only calls `called` with what the
    // object refers to.
    unsafe { traverse(pointer(object), called::<V>, std::ptr::from_mut(visit).cast()) };
}

/// Entries of a dictionary, borrowed.
pub fn entries(dict: Address, mut visit: impl FnMut(Address, Address)) {
    let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: `dict` is a dictionary, and nothing changes it while the GIL is held and no Python
    // code runs.
    while unsafe { ffi::PyDict_Next(pointer(dict), &mut position, &mut key, &mut value) } != 0 {
        visit(key as u64, value as u64);
    }
}

/// Items of a list or a subclass of it.
pub fn list_items(list: Address, mut visit: impl FnMut(u64, Address)) {
    // SAFETY: `list` is a list; items are borrowed, null where a list is not filled yet.
    let length = unsafe { ffi::PyList_Size(pointer(list)) };
    for index in 0..length {
        // SAFETY: as above, and the index is within it.
        let item = unsafe { ffi::PyList_GetItem(pointer(list), index) };
        if !item.is_null() {
            visit(index as u64, item as u64);
        }
    }
}

/// Items of a tuple or a subclass of it.
pub fn tuple_items(tuple: Address, mut visit: impl FnMut(u64, Address)) {
    // SAFETY: `tuple` is a tuple; items are borrowed.
    let length = unsafe { ffi::PyTuple_Size(pointer(tuple)) };
    for index in 0..length {
        // SAFETY: as above, and the index is within it.
        let item = unsafe { ffi::PyTuple_GetItem(pointer(tuple), index) };
        if !item.is_null() {
            visit(index as u64, item as u64);
        }
    }
}

/// One item of a list, or 0.
pub fn list_item(list: Address, index: usize) -> Address {
    // SAFETY: `list` is a list; an index beyond its end gives null and an exception, which is
    // dropped.
    unsafe {
        let item = ffi::PyList_GetItem(pointer(list), index as isize);
        if item.is_null() {
            ffi::PyErr_Clear();
        }
        item as u64
    }
}

/// Empties a list without an end to any item. Those that nothing else holds are returned, to be
/// held until the walk is over: other threads may have let go of them after the list was made.
#[must_use]
pub fn clear_list(list: Address) -> Vec<Py<PyAny>> {
    // SAFETY: whoever has addresses holds the GIL.
    let py = unsafe { Python::assume_attached() };
    let mut alone = Vec::new();
    list_items(list, |_, item| {
        // SAFETY: the list holds the item; each stands in it once, so that it is the last reference
        // if it is the only one.
        if unsafe { ffi::Py_REFCNT(pointer(item)) } == 1 {
            // SAFETY: as above.
            alone.push(unsafe { Bound::from_borrowed_ptr(py, pointer(item)) }.unbind());
        }
    });
    // SAFETY: `list` is a list of our own that nobody iterates, and each item has another
    // reference.
    unsafe { ffi::PyList_SetSlice(pointer(list), 0, isize::MAX, std::ptr::null_mut()) };
    alone
}

/// An attribute that is an int, perhaps made for the answer.
pub fn attribute_integer(object: Address, name: Address) -> Option<i64> {
    // SAFETY: both live; the answer is looked at before its reference is given up.
    unsafe {
        let value = ffi::PyObject_GetAttr(pointer(object), pointer(name));
        if value.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        let number = if super::text::is_integer(value as u64) { super::text::integer(value as u64) } else { None };
        ffi::Py_DECREF(value);
        number
    }
}

/// An attribute that is there already: asked only of exact built-in types and of attributes that
/// make nothing.
pub fn attribute(object: Address, name: Address) -> Option<Address> {
    // SAFETY: both live. The reference that is returned is given up at once: the object holds
    // another.
    unsafe {
        let value = ffi::PyObject_GetAttr(pointer(object), pointer(name));
        if value.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        ffi::Py_DECREF(value);
        Some(value as u64)
    }
}
