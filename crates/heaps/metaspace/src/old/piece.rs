//! A piece of committed memory with the metaspace's own notes: a chunk's header, or a free block's
//! links.
//!
//! The old design stores all its bookkeeping in the memory it manages, and only this code reads and
//! writes that memory. A piece is an address. It never outlives the commitment of its memory,
//! because every piece is taken out of all lists before its arena dies or its node is unmapped.

use super::facts::WORD;
use std::num::NonZeroUsize;

/// The address of a chunk or free block with words for notes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Piece(NonZeroUsize);

/// The first words of every piece, a free block or a chunk header alike: its size and two links.
const SIZE: usize = 0;
const NEXT: usize = 1;
const PREVIOUS: usize = 2;

impl Piece {
    /// The piece at `address`.
    ///
    /// # Safety
    /// `address` is a multiple of 8 within a node; the words that its owner will use of it (header,
    /// or links and tree node) are committed, belong to no live block and to no other piece, and
    /// stay so until the last copy of the piece is gone.
    pub unsafe fn at(address: usize) -> Piece {
        debug_assert!(address.is_multiple_of(WORD));
        Piece(NonZeroUsize::new(address).expect("a node never lies at address zero"))
    }

    /// Its address.
    pub fn address(self) -> usize {
        self.0.get()
    }

    /// Word `index` of the piece.
    pub fn get(self, index: usize) -> usize {
        // SAFETY: `at` promised that the words used by a piece's owner are committed and nobody
        // else's; the address came from a reservation with exposed provenance.
        unsafe { std::ptr::with_exposed_provenance::<usize>(self.0.get()).add(index).read() }
    }

    /// Sets word `index`.
    pub fn set(self, index: usize, value: usize) {
        // SAFETY: as in `get`.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<usize>(self.0.get()).add(index).write(value)
        }
    }

    /// The piece at the address in word `index`; zero is none.
    pub fn link(self, index: usize) -> Option<Piece> {
        NonZeroUsize::new(self.get(index)).map(Piece)
    }

    /// Writes a link.
    pub fn set_link(self, index: usize, to: Option<Piece>) {
        self.set(index, to.map_or(0, Piece::address));
    }

    /// Its size.
    pub fn words(self) -> usize {
        self.get(SIZE)
    }

    /// Writes its size.
    pub fn set_words(self, words: usize) {
        self.set(SIZE, words);
    }

    /// Its successor in a list.
    pub fn next(self) -> Option<Piece> {
        self.link(NEXT)
    }

    /// Links it to a successor.
    pub fn set_next(self, to: Option<Piece>) {
        self.set_link(NEXT, to);
    }

    /// Its predecessor in a list.
    pub fn previous(self) -> Option<Piece> {
        self.link(PREVIOUS)
    }

    /// Links it to a predecessor.
    pub fn set_previous(self, to: Option<Piece>) {
        self.set_link(PREVIOUS, to);
    }
}

/// A doubly linked list of pieces, used at its head.
#[derive(Default)]
pub(super) struct PieceList {
    head: Option<Piece>,
    count: usize,
}

impl PieceList {
    /// The piece put last.
    pub fn head(&self) -> Option<Piece> {
        self.head
    }

    /// Number of pieces.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Puts `piece` at the head.
    pub fn push(&mut self, piece: Piece) {
        piece.set_previous(None);
        piece.set_next(self.head);
        if let Some(old) = self.head {
            old.set_previous(Some(piece));
        }
        self.head = Some(piece);
        self.count += 1;
    }

    /// Removes `piece`, which must be on this list.
    pub fn remove(&mut self, piece: Piece) {
        match piece.previous() {
            Some(previous) => previous.set_next(piece.next()),
            None => self.head = piece.next(),
        }
        if let Some(next) = piece.next() {
            next.set_previous(piece.previous());
        }
        piece.set_next(None);
        piece.set_previous(None);
        self.count -= 1;
    }

    /// From the head on. The list must not change meanwhile.
    pub fn iter(&self) -> impl Iterator<Item = Piece> {
        std::iter::successors(self.head, |piece| piece.next())
    }
}
