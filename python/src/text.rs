//! Strings and numbers of Python as text, without allocating in its heap (`PyUnicode_AsUTF8` would
//! keep what it makes).

use super::object::{self, Address, pointer};
use heaplab_snapshot::generate::OwnTexts;
use pyo3::ffi;
use std::io::Write;
use std::mem::MaybeUninit;

/// Strings are cut here, as V8 cuts them.
const CHARACTERS_MAX: usize = 1024;

/// Appends a string, cut; surrogates alone as three bytes.
pub fn append(string: Address, out: &mut Vec<u8>) {
    // One more than is taken, for the zero that follows a string that is shorter.
    let mut points = [MaybeUninit::<u32>::uninit(); CHARACTERS_MAX + 1];
    // SAFETY: `string` is a living str; at most so many characters of four bytes (wchar_t on Linux)
    // are copied, into room for one more.
    let count = unsafe { ffi::PyUnicode_AsWideChar(pointer(string), points.as_mut_ptr().cast(), points.len() as isize) };
    let count = usize::try_from(count).unwrap_or(0).min(CHARACTERS_MAX);
    // SAFETY: so many were written, from the first on.
    let points = unsafe { std::slice::from_raw_parts(points.as_ptr().cast::<u32>(), count) };
    if points.iter().fold(0, |all, point| all | point) < 128 {
        out.extend(points.iter().map(|point| *point as u8));
        return;
    }
    for point in points {
        match *point {
            0..=127 => out.push(*point as u8),
            0xD800..=0xDFFF => out.extend([0xE0 | (point >> 12) as u8, 0x80 | (point >> 6 & 0x3F) as u8, 0x80 | (point & 0x3F) as u8]),
            _ => out.extend_from_slice(char::from_u32(*point).unwrap_or('\u{FFFD}').encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Texts of strings and numbers, which live as long as the walk and cannot change: they are read
/// where they are, each time they are needed.
pub struct OfObjects;

impl OwnTexts for OfObjects {
    fn append(&self, object: u64, out: &mut Vec<u8>) -> bool {
        if !object::is_address(object) {
            return false;
        }
        let type_object = object::type_of(object) as *mut ffi::PyTypeObject;
        // The very types whose objects `Kind` calls strings and numbers: a subclass has its class
        // for a name.
        if type_object == &raw mut ffi::PyUnicode_Type {
            append(object, out);
        } else if type_object == &raw mut ffi::PyLong_Type || type_object == &raw mut ffi::PyBool_Type {
            append_integer(object, out);
        } else if type_object == &raw mut ffi::PyFloat_Type {
            append_float(object, out);
        } else {
            return false;
        }
        true
    }
}

/// Whether the object is a str or of a subclass.
pub fn is_string(object: Address) -> bool {
    // SAFETY: the object lives; its type's flags say it.
    unsafe { ffi::PyUnicode_Check(pointer(object)) != 0 }
}

/// An int, if it fits 64 bits.
pub fn integer(object: Address) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: `object` is a living int; too large ones are told by `overflow`, without an
    // exception.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(pointer(object), &mut overflow) };
    (overflow == 0).then_some(value)
}

/// Whether the object is an int or of a subclass.
pub fn is_integer(object: Address) -> bool {
    // SAFETY: the object lives; its type's flags say it.
    unsafe { ffi::PyLong_Check(pointer(object)) != 0 }
}

/// Appends an int.
pub fn append_integer(object: Address, out: &mut Vec<u8>) {
    match integer(object) {
        Some(value) => write_all(out, format_args!("{value}")),
        None => out.extend_from_slice(b"int of more than 64 bits"),
    }
}

/// Appends a float.
pub fn append_float(object: Address, out: &mut Vec<u8>) {
    // SAFETY: `object` is an exact float, whose value is returned as it is.
    let value = unsafe { ffi::PyFloat_AsDouble(pointer(object)) };
    write_all(out, format_args!("{value:?}"));
}

/// Vectors take everything.
pub fn write_all(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
