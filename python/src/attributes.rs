//! Attributes of instances where CPython 3.11 and later keep them: in an array beside the object,
//! their names in the type's shared keys.
//!
//! `tp_traverse` shows the values without their names, and asking for `__dict__` would make a
//! dictionary for each object, which would change the heap that is being measured. So the array is
//! read where it lies. That is no part of the stable ABI: offsets are those of
//! `Include/internal/pycore_dict.h`, `pycore_object.h` and `Include/cpython/object.h` of 3.11, 3.12
//! and 3.13, they are taken for these versions only, and [`Layout::find`] tries them on an object
//! whose attributes are known. Where the trial fails, attributes are numbered instead of named.

use super::object::{Address, address, flags_of, type_of, word_at};
use super::text;
use pyo3::prelude::*;

/// `Py_TPFLAGS_MANAGED_DICT`.
const MANAGED_DICT: u64 = 1 << 4;
/// `Py_TPFLAGS_INLINE_VALUES` of 3.13.
const INLINE_VALUES: u64 = 1 << 2;
/// `Py_TPFLAGS_HEAPTYPE`.
const HEAP_TYPE: u64 = 1 << 9;
/// More attributes than shared keys can have.
const ENTRIES_MAX: u64 = 256;

/// Where the array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// 3.11: a pointer four words before the object.
    FourBefore,
    /// 3.12: a pointer, less one, three words before the object.
    TaggedBefore,
    /// 3.13: behind the object's own fields, if its fourth byte says that it is valid.
    Inline,
}

/// How attributes are found.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    values: Values,
    /// Of `ht_cached_keys` in a heap type.
    cached_keys_offset: i64,
}

impl Layout {
    /// The layout of this CPython, if it is a known one and the sample agrees.
    pub fn find(sample: &Bound<'_, PyAny>) -> Option<Layout> {
        let version = sample.py().version_info();
        let (values, cached_keys_offset) = match (version.major, version.minor) {
            (3, 11) => (Values::FourBefore, 872),
            (3, 12) => (Values::TaggedBefore, 880),
            (3, 13) => (Values::Inline, 880),
            _ => return None,
        };
        let layout = Layout { values, cached_keys_offset };
        let basic_size = sample.get_type().getattr("__basicsize__").ok()?.extract().ok()?;
        let mut found = Vec::new();
        layout.each(address(sample), basic_size, &mut |name, value| {
            let mut text = Vec::new();
            text::append(name, &mut text);
            found.push((text, value));
        });
        let expected = ["first", "second", "third"].map(|name| sample.getattr(name).map(|value| address(&value)));
        let names = ["first", "second", "third"].map(|name| name.as_bytes().to_vec());
        let agrees = found.len() == 3
            && found.iter().zip(names.iter().zip(expected)).all(|((name, value), (expected_name, expected))| {
                name == expected_name && expected.is_ok_and(|expected| expected == *value)
            });
        agrees.then_some(layout)
    }

    /// Name and value of each attribute of `object` that lies in an array.
    pub fn each(&self, object: Address, basic_size: i64, visit: &mut dyn FnMut(Address, Address)) {
        let type_object = type_of(object);
        let flags = flags_of(type_object);
        if flags & MANAGED_DICT == 0 || flags & HEAP_TYPE == 0 || (self.values == Values::Inline && flags & INLINE_VALUES == 0) {
            return;
        }
        let Some(values) = self.values_of(object, basic_size) else { return };
        // SAFETY: a heap type of a known version has its cached keys there.
        let keys = unsafe { word_at(type_object, self.cached_keys_offset) };
        if keys == 0 {
            return;
        }
        // SAFETY: `keys` is a PyDictKeysObject: reference count, three bytes (size, index bytes,
        // kind) and padding, version, usable, count of entries, indices of 2^(index bytes) bytes,
        // entries of key and value.
        unsafe {
            let sizes = word_at(keys, 8).to_le_bytes();
            let count = word_at(keys, 24);
            if count > ENTRIES_MAX || sizes[1] > 32 {
                return;
            }
            let entries = keys + 32 + (1 << sizes[1]);
            for index in 0..count as i64 {
                let (name, value) = (word_at(entries, index * 16), word_at(values, index * 8));
                if name != 0 && value != 0 {
                    visit(name, value);
                }
            }
        }
    }

    /// The array of an object with a managed dictionary.
    fn values_of(&self, object: Address, basic_size: i64) -> Option<u64> {
        // SAFETY: objects of such types have these words before them, or the array behind them.
        unsafe {
            match self.values {
                Values::FourBefore => Some(word_at(object, -32)).filter(|values| *values != 0),
                Values::TaggedBefore => {
                    let tagged = word_at(object, -24);
                    (tagged & 1 == 1).then_some(tagged + 1)
                }
                Values::Inline => {
                    let header = word_at(object, basic_size).to_le_bytes();
                    (header[3] == 1).then_some((object as i64 + basic_size + 8) as u64)
                }
            }
        }
    }

    /// Whether objects of that type have two words for dictionary and weak references before them,
    /// which `sys.getsizeof` counts.
    pub fn has_words_before(flags: u64, minor: u8) -> bool {
        /// `Py_TPFLAGS_MANAGED_WEAKREF` of 3.12 and later.
        const MANAGED_WEAKREF: u64 = 1 << 3;
        match minor {
            ..=10 => false,
            11 => flags & MANAGED_DICT != 0,
            _ => flags & (MANAGED_DICT | MANAGED_WEAKREF) != 0,
        }
    }
}
