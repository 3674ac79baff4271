//! Ids of nodes on their way from one file into another: each once, as a writer wants them.
//!
//! V8 gives an id once; other writers may repeat one. By default such a file is refused, as in
//! reading, at the byte of the second id. If the caller allows repeated ids
//! ([`Rows::allow_duplicate_ids`]), the first node keeps the id and the others get new ones, larger
//! than any in the file. A new id keeps the old one's parity, which tells embedders' nodes from
//! heap objects.

use super::RewriteError;
use crate::ReadError;
use crate::rows::Rows;
use crate::write::{Node, WriteError, Writer};
use std::io::Write;

/// Writes nodes of a file.
pub(super) struct Ids<'r, 'a> {
    rows: &'r Rows<'a>,
    /// The next new ones, even and odd, once one is needed.
    next: Option<[u64; 2]>,
}

impl<'r, 'a> Ids<'r, 'a> {
    pub(super) fn of(rows: &'r Rows<'a>) -> Ids<'r, 'a> {
        Ids { rows, next: None }
    }

    /// Writes a node that has its id of the file.
    #[inline]
    pub(super) fn write<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        node: Node,
    ) -> Result<(), RewriteError> {
        if self.rows.duplicate_ids_allowed() && writer.has_id(node.id) {
            let id = self.fresh(node.id)?;
            return Ok(writer.node(&Node { id, ..node })?);
        }
        match writer.node(&node) {
            Err(WriteError::DuplicateId { id, .. }) => Err(self.refused(id)?.into()),
            other => Ok(other?),
        }
    }

    /// A new id for a node whose own id an earlier node has.
    #[cold]
    fn fresh(&mut self, id: u64) -> Result<u64, RewriteError> {
        let next = match &mut self.next {
            Some(next) => next,
            None => {
                let largest = self.largest()?;
                self.next.insert([largest + 2 - largest % 2, largest + 1 + largest % 2])
            }
        };
        let next = &mut next[(id % 2) as usize];
        *next += 2;
        Ok(*next - 2)
    }

    fn largest(&self) -> Result<u64, ReadError> {
        let (mut nodes, mut largest) = (self.rows.nodes(), 0);
        while let Some(node) = nodes.read()? {
            largest = largest.max(node.id);
        }
        Ok(largest)
    }

    /// The error that reading the file gives.
    fn refused(&self, id: u64) -> Result<ReadError, ReadError> {
        let mut nodes = self.rows.nodes();
        let (mut row, mut first) = (0, None);
        while let Some(node) = nodes.read()? {
            match first {
                Some(first) if node.id == id => return Ok(self.rows.duplicate_id(first, row)),
                None if node.id == id => first = Some(row),
                _ => {}
            }
            row += 1;
        }
        // The writer saw the id twice, so the file has it twice.
        Ok(self.rows.duplicate_id(first.unwrap_or(0), row))
    }
}
