//! Names: the file's strings, the names that an analysis adds behind them, and which of them have a
//! meaning.

use crate::strings::{StringId, Strings, to_text};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, Ordering};

/// A string with a meaning to DevTools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Known {
    Unresolved,
    Other,
    NativeContext,
    MapDescriptors,
    SloppyFunctionMap,
    DocumentDomTrees,
    ExternalStringData,
    ArrayBufferData,
    Object,
    Array,
    Elements,
    Proto,
}

impl Known {
    fn of(bytes: &[u8]) -> Known {
        match bytes {
            b"system / NativeContext" => Known::NativeContext,
            b"(map descriptors)" => Known::MapDescriptors,
            b"sloppy_function_map" => Known::SloppyFunctionMap,
            b"(Document DOM trees)" => Known::DocumentDomTrees,
            b"system / ExternalStringData" => Known::ExternalStringData,
            b"system / JSArrayBufferData" => Known::ArrayBufferData,
            b"Object" => Known::Object,
            b"Array" => Known::Array,
            b"elements" => Known::Elements,
            b"__proto__" => Known::Proto,
            _ => Known::Other,
        }
    }

    fn from_number(number: u8) -> Known {
        const ALL: [Known; 12] = [
            Known::Unresolved,
            Known::Other,
            Known::NativeContext,
            Known::MapDescriptors,
            Known::SloppyFunctionMap,
            Known::DocumentDomTrees,
            Known::ExternalStringData,
            Known::ArrayBufferData,
            Known::Object,
            Known::Array,
            Known::Elements,
            Known::Proto,
        ];
        ALL.get(usize::from(number)).copied().unwrap_or(Known::Other)
    }
}

/// The strings of a file and those added.
#[derive(Debug)]
pub(crate) struct Names<'s, 'a> {
    strings: &'s Strings<'a>,
    added: Vec<Vec<u8>>,
    /// A byte a string: its meaning, resolved on first use.
    known: Vec<AtomicU8>,
}

impl<'s, 'a> Names<'s, 'a> {
    pub fn new(strings: &'s Strings<'a>) -> Self {
        let mut known = Vec::new();
        known.resize_with(strings.len(), AtomicU8::default);
        Names { strings, added: Vec::new(), known }
    }

    /// A copy to which more can be added.
    pub fn fork(&self) -> Self {
        let known =
            self.known.iter().map(|known| AtomicU8::new(known.load(Ordering::Relaxed))).collect();
        Names { strings: self.strings, added: self.added.clone(), known }
    }

    /// Adds a name; the same bytes may be in the list already, and are then another string, as in
    /// DevTools.
    pub fn add(&mut self, name: Vec<u8>) -> StringId {
        self.added.push(name);
        (self.strings.len() + self.added.len() - 1) as StringId
    }

    /// The names that were added.
    pub fn added(&self) -> &[Vec<u8>] {
        &self.added
    }

    /// How many the file has.
    pub fn file_len(&self) -> usize {
        self.strings.len()
    }

    /// How many there are with those added.
    pub fn len(&self) -> usize {
        self.strings.len() + self.added.len()
    }

    /// The string in WTF-8.
    pub fn bytes(&self, id: StringId) -> Cow<'_, [u8]> {
        match (id as usize).checked_sub(self.strings.len()) {
            None => self.strings.bytes(id),
            Some(place) => Cow::Borrowed(self.added.get(place).map_or(&[], Vec::as_slice)),
        }
    }

    /// The string's length in the file in bytes, escapes included; 0 exactly for an empty string.
    pub fn raw_len(&self, id: StringId) -> usize {
        match (id as usize).checked_sub(self.strings.len()) {
            None => self.strings.raw(id).len(),
            Some(place) => self.added.get(place).map_or(0, Vec::len),
        }
    }

    /// The string as text.
    pub fn text(&self, id: StringId) -> Cow<'_, str> {
        to_text(self.bytes(id))
    }

    /// The string's meaning.
    #[inline]
    pub fn known(&self, id: StringId) -> Known {
        let Some(known) = self.known.get(id as usize) else { return Known::of(&self.bytes(id)) };
        match Known::from_number(known.load(Ordering::Relaxed)) {
            Known::Unresolved => self.resolve(id, known),
            known => known,
        }
    }

    #[cold]
    fn resolve(&self, id: StringId, slot: &AtomicU8) -> Known {
        let known = Known::of(&self.bytes(id));
        slot.store(known as u8, Ordering::Relaxed);
        known
    }
}
