//! Texts that objects of the heap are themselves: found and written without a copy.
//!
//! The generator copies each name once and keeps it until the file ends, at some 40 bytes besides
//! the text. Class and property names are few. But a string object is its own name, and the heap
//! already has that text. Such an embedder lends its texts ([`super::Embedder::own_texts`]). The
//! generator reads lent texts again when it needs them, and keeps 5 bytes of each. V8 has no
//! equivalent: its `StringsStorage` copies.
//!
//! Numbers are given before the first row: distinct texts stand in buckets by their hash, each as
//! the ordinal of an object that has it, and a text's number is its place in that list. Bits that
//! ordinals do not need hold some of the hash, so that another object's text is seldom read in
//! vain.

use super::numbering::Numbering;
use crate::names::{Hash, StringId};

/// Reads the texts of objects.
pub trait OwnTexts {
    /// Appends an object's full text, in UTF-8 in which surrogates may stand alone. Returns false
    /// if the object has no text of its own.
    ///
    /// The text must stay the same until the snapshot is finished; a changed text ends the file
    /// with an error.
    fn append(&self, object: u64, out: &mut Vec<u8>) -> bool;
}

/// Not an ordinal: they are stored from 1 on.
const FREE: u32 = 0;
/// Independent of [`super::GeneratorOptions::hash`]: V8's hashes of numbers would fill few buckets.
const HASH: Hash = Hash::Mixed;
/// At least this many objects a bucket, and at most twice as many.
const BUCKET_OBJECTS: usize = 4;

/// The texts of a heap's objects, numbered from 0.
pub(super) struct Lent {
    texts: Box<dyn OwnTexts>,
    /// Where each bucket begins in `entries`, and where the last ends.
    starts: Vec<u32>,
    bucket_bits: u32,
    /// Ordinal + 1 in the low bits, hash above.
    entries: Vec<u32>,
    ordinal_bits: u32,
}

impl Lent {
    /// Reads the texts of all objects: once to count, once to find equal ones.
    pub(super) fn new(texts: Box<dyn OwnTexts>, identity: &Numbering) -> Lent {
        let bucket_bits = (identity.len() / BUCKET_OBJECTS).checked_ilog2().unwrap_or(0);
        let ordinal_bits = usize::BITS - identity.len().leading_zeros();
        let starts = vec![0; (1 << bucket_bits) + 1];
        let mut lent = Lent {
            texts,
            starts,
            bucket_bits,
            entries: Vec::new(),
            ordinal_bits: ordinal_bits.min(32),
        };
        let mut text = Vec::new();
        for object in identity.objects() {
            if let Some(hash) = lent.hash_of(object, &mut text) {
                let bucket = lent.bucket(hash);
                lent.starts[bucket + 1] += 1;
            }
        }
        for bucket in 1..lent.starts.len() {
            lent.starts[bucket] += lent.starts[bucket - 1];
        }
        lent.entries = vec![FREE; lent.starts.last().copied().unwrap_or(0) as usize];
        let mut other = Vec::new();
        for (ordinal, object) in identity.objects().enumerate() {
            let Some(hash) = lent.hash_of(object, &mut text) else { continue };
            if let Place::Free(at) = lent.place(hash, &text, identity, &mut other) {
                lent.entries[at] = lent.tag(hash) | (ordinal as u32 + 1);
            }
        }
        lent.close_gaps();
        lent
    }

    /// Equal texts left places free.
    fn close_gaps(&mut self) {
        let mut to = 0;
        for bucket in 0..self.starts.len() - 1 {
            let (start, end) = (self.starts[bucket] as usize, self.starts[bucket + 1] as usize);
            self.starts[bucket] = to as u32;
            for at in start..end {
                if self.entries[at] == FREE {
                    break;
                }
                self.entries[to] = self.entries[at];
                to += 1;
            }
        }
        if let Some(last) = self.starts.last_mut() {
            *last = to as u32;
        }
        self.entries.truncate(to);
        self.entries.shrink_to_fit();
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.entries.len() + self.starts.len()) * size_of::<u32>()
    }

    /// The number of a text; `other` is room to read into.
    pub(super) fn find(
        &self,
        text: &[u8],
        identity: &Numbering,
        other: &mut Vec<u8>,
    ) -> Option<StringId> {
        match self.place(HASH.of(text), text, identity, other) {
            Place::Of(at) => Some(StringId(at as u32)),
            Place::Free(_) | Place::Full => None,
        }
    }

    /// Appends the texts in the order of their numbers: to be called with one after the other.
    /// False if one is another by now.
    pub(super) fn reader<'a>(
        &'a self,
        identity: &'a Numbering,
    ) -> impl FnMut(StringId, &mut Vec<u8>) -> bool + 'a {
        let mut bucket = 0;
        move |number, out| {
            while self.starts[bucket + 1] <= number.0 {
                bucket += 1;
            }
            let entry = self.entries[number.0 as usize];
            let hash =
                self.hash_of(identity.object((entry & self.ordinal_mask()) as usize - 1), out);
            hash.is_some_and(|hash| {
                self.bucket(hash) == bucket && self.tag(hash) == entry & !self.ordinal_mask()
            })
        }
    }

    /// The hash of an object's text, which is put into `text`.
    fn hash_of(&self, object: u64, text: &mut Vec<u8>) -> Option<u32> {
        text.clear();
        self.texts.append(object, text).then(|| HASH.of(text))
    }

    fn place(&self, hash: u32, text: &[u8], identity: &Numbering, other: &mut Vec<u8>) -> Place {
        let (bucket, tag, mask) = (self.bucket(hash), self.tag(hash), self.ordinal_mask());
        for at in self.starts[bucket] as usize..self.starts[bucket + 1] as usize {
            let entry = self.entries[at];
            if entry == FREE {
                return Place::Free(at);
            }
            if entry & !mask == tag {
                other.clear();
                self.texts.append(identity.object((entry & mask) as usize - 1), other);
                if other == text {
                    return Place::Of(at);
                }
            }
        }
        Place::Full
    }

    #[inline]
    fn bucket(&self, hash: u32) -> usize {
        hash.checked_shr(u32::BITS - self.bucket_bits).unwrap_or(0) as usize
    }

    /// The hash's low bits, which say nothing of the bucket, above an ordinal's.
    #[inline]
    fn tag(&self, hash: u32) -> u32 {
        hash.checked_shl(self.ordinal_bits).unwrap_or(0)
    }

    #[inline]
    fn ordinal_mask(&self) -> u32 {
        u32::MAX.checked_shr(u32::BITS - self.ordinal_bits).unwrap_or(0)
    }
}

/// Where a text is in a bucket.
enum Place {
    Of(usize),
    /// Nowhere; it would be there.
    Free(usize),
    /// Nowhere, and no place is free.
    Full,
}
