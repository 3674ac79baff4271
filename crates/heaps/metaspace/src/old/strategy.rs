//! Two spaces, three chunk sizes in each, and humongous chunks for larger requests.
//!
//! Every size is a multiple of the next smaller one, but with different factors (4 and 16 outside
//! of class space, 2 and 16 in it): the document's "odd geometry".

use super::facts::{self, WORD};
use crate::plan::LoaderKind;

/// One of the two metaspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Everything but class structures; a list of nodes.
    NonClass,
    /// Class structures, within reach of a compressed pointer; one node.
    Class,
}

/// A chunk's size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ChunkKind {
    /// 1 KB.
    Specialized,
    /// 4 KB; 2 KB in class space.
    Small,
    /// 64 KB; 32 KB in class space.
    Medium,
    /// Larger, a multiple of 1 KB.
    Humongous,
}

impl ChunkKind {
    /// All, ascending.
    pub const ALL: [ChunkKind; 4] =
        [ChunkKind::Specialized, ChunkKind::Small, ChunkKind::Medium, ChunkKind::Humongous];
    /// The fixed sizes, ascending.
    pub const FIXED: [ChunkKind; 3] = [ChunkKind::Specialized, ChunkKind::Small, ChunkKind::Medium];

    /// The next smaller fixed size.
    pub(super) fn below(self) -> Option<ChunkKind> {
        (self as usize).checked_sub(1).map(|index| ChunkKind::ALL[index])
    }

    /// HotSpot's name.
    pub fn name(self) -> &'static str {
        ["specialized", "small", "medium", "humongous"][self as usize]
    }
}

impl Space {
    /// Both.
    pub const ALL: [Space; 2] = [Space::NonClass, Space::Class];

    /// Words of a chunk of this kind; `None` for humongous ones, which vary.
    pub fn words_of(self, kind: ChunkKind) -> Option<usize> {
        match (kind, self) {
            (ChunkKind::Specialized, _) => Some(facts::SPECIALIZED_WORDS),
            (ChunkKind::Small, Space::NonClass) => Some(facts::SMALL_WORDS),
            (ChunkKind::Small, Space::Class) => Some(facts::CLASS_SMALL_WORDS),
            (ChunkKind::Medium, Space::NonClass) => Some(facts::MEDIUM_WORDS),
            (ChunkKind::Medium, Space::Class) => Some(facts::CLASS_MEDIUM_WORDS),
            (ChunkKind::Humongous, _) => None,
        }
    }

    /// Words of a small chunk.
    pub fn small_words(self) -> usize {
        if self == Space::Class { facts::CLASS_SMALL_WORDS } else { facts::SMALL_WORDS }
    }

    /// Words of a medium chunk.
    pub fn medium_words(self) -> usize {
        if self == Space::Class { facts::CLASS_MEDIUM_WORDS } else { facts::MEDIUM_WORDS }
    }

    /// The kind of a chunk of `words`, a chunk size of this space.
    pub fn kind_of(self, words: usize) -> ChunkKind {
        debug_assert!(words.is_multiple_of(facts::SPECIALIZED_WORDS), "no chunk has {words} words");
        match words {
            facts::SPECIALIZED_WORDS => ChunkKind::Specialized,
            _ if words == self.small_words() => ChunkKind::Small,
            _ if words == self.medium_words() => ChunkKind::Medium,
            _ => ChunkKind::Humongous,
        }
    }

    /// Alignment of a chunk of `words`: chunks of fixed size start at multiples of their size,
    /// humongous ones at any 1 KB.
    pub fn chunk_alignment_bytes(self, words: usize) -> usize {
        if words > self.medium_words() { facts::SPECIALIZED_WORDS * WORD } else { words * WORD }
    }

    /// Words of an arena's first chunk, given at birth.
    pub fn first_chunk_words(self, loader: LoaderKind) -> usize {
        match (loader, self) {
            (LoaderKind::Boot, Space::NonClass) => facts::BOOT_CHUNK_WORDS,
            (LoaderKind::Boot, Space::Class) => facts::BOOT_CLASS_CHUNK_WORDS,
            (LoaderKind::Hidden | LoaderKind::Reflection, _) => facts::SPECIALIZED_WORDS,
            (LoaderKind::Standard, _) => self.small_words(),
        }
    }

    /// Its name in listings.
    pub fn name(self) -> &'static str {
        if self == Space::Class { "class" } else { "non-class" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_document() {
        let kilobytes =
            |space: Space| ChunkKind::FIXED.map(|kind| space.words_of(kind).unwrap() * WORD / 1024);
        assert_eq!((kilobytes(Space::NonClass), kilobytes(Space::Class)), ([1, 4, 64], [1, 2, 32]));
        for space in Space::ALL {
            for kind in ChunkKind::FIXED {
                assert_eq!(space.kind_of(space.words_of(kind).unwrap()), kind);
            }
            assert_eq!(space.kind_of(space.medium_words() + 128), ChunkKind::Humongous);
        }
        // Between small and medium there is no chunk size, but a humongous class chunk may be as
        // large as a non-class medium one.
        assert_eq!(Space::Class.kind_of(facts::MEDIUM_WORDS), ChunkKind::Humongous);
    }
}
