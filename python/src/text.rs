//! Strings and numbers of Python as text, without allocating in its heap (`PyUnicode_AsUTF8` would keep what it makes).

use super::object::{Address, pointer};
use pyo3::ffi;
use std::io::Write;

/// Strings are cut here, as V8 cuts them.
const CHARACTERS_MAX: isize = 1024;

/// Appends a string, cut; surrogates alone as three bytes.
pub fn append(string: Address, out: &mut Vec<u8>) {
    // SAFETY: `string` is a living str.
    let length = unsafe { ffi::PyUnicode_GetLength(pointer(string)) };
    for index in 0..length.min(CHARACTERS_MAX) {
        // SAFETY: the index is within the string.
        let point = unsafe { ffi::PyUnicode_ReadChar(pointer(string), index) };
        match point {
            0..=127 => out.push(point as u8),
            0xD800..=0xDFFF => out.extend([0xE0 | (point >> 12) as u8, 0x80 | (point >> 6 & 0x3F) as u8, 0x80 | (point & 0x3F) as u8]),
            _ => out.extend_from_slice(char::from_u32(point).unwrap_or('\u{FFFD}').encode_utf8(&mut [0; 4]).as_bytes()),
        }
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
    // SAFETY: `object` is a living int; too large ones are told by `overflow`, without an exception.
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
