//! Appends blocks to `events.spool`, and never leaves half a block behind when the disk is full.
//!
//! The writer keeps an index of its blocks: a recording that ends in order need not be scanned.

use super::block::{BlockKind, HEADER_BYTES, Header, RingId};
use super::note::Note;
use super::reader::Index;
use super::record::Encoder;
use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::path::Path;

/// The writing end of a spool.
#[derive(Debug)]
pub struct SpoolWriter {
    file: File,
    index: Index,
    /// Fails when the file would grow beyond this; for tests of a full disk.
    limit_bytes: u64,
}

impl SpoolWriter {
    /// Creates the file.
    pub fn create(path: &Path) -> io::Result<SpoolWriter> {
        let file = File::options().write(true).create_new(true).open(path)?;
        Ok(SpoolWriter { file, index: Index::default(), limit_bytes: u64::MAX })
    }

    /// Acts as if the disk were full once the file has this many bytes.
    pub fn limit(&mut self, bytes: u64) {
        self.limit_bytes = bytes;
    }

    /// Bytes written.
    pub fn bytes(&self) -> u64 {
        self.index.sound_bytes
    }

    /// The index of everything written or remembered.
    pub fn into_index(self) -> Index {
        self.index
    }

    /// Appends the encoder's records as a block of `ring`; `begin` and `end` are the ring's words
    /// before and after them.
    pub fn records(
        &mut self,
        encoder: &Encoder,
        ring: RingId,
        begin: u64,
        end: u64,
        base_stamp: u64,
    ) -> io::Result<()> {
        let payload = encoder.payload();
        let header = Header {
            kind: BlockKind::Records,
            payload_bytes: payload.len() as u32,
            records: encoder.records(),
            ring,
            begin_position: begin,
            end_position: end,
            base_stamp,
        };
        self.append(&header, payload)
    }

    /// Appends a note.
    pub fn note(&mut self, note: &Note) -> io::Result<()> {
        let payload = serde_json::to_vec(note).map_err(io::Error::other)?;
        let header = Header {
            kind: BlockKind::Note,
            payload_bytes: payload.len() as u32,
            records: 0,
            ring: RingId::default(),
            begin_position: 0,
            end_position: 0,
            base_stamp: 0,
        };
        self.append(&header, &payload)?;
        self.index.notes.push(note.clone());
        Ok(())
    }

    /// Adds to the index a note that the file could not take.
    pub fn remember(&mut self, note: Note) {
        self.index.notes.push(note);
    }

    fn append(&mut self, header: &Header, payload: &[u8]) -> io::Result<()> {
        let head = header.to_bytes(payload);
        let total = HEADER_BYTES + payload.len();
        let room = self.limit_bytes.saturating_sub(self.bytes()).min(total as u64) as usize;
        // As on a full disk: writes what fits, then no more.
        let outcome = self.write_both(
            &head[..room.min(HEADER_BYTES)],
            &payload[..room.saturating_sub(HEADER_BYTES)],
        );
        let outcome = outcome.and_then(|()| {
            if room < total { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        });
        match outcome {
            Ok(()) => self.index.add(header),
            // A torn block would end every later reading here. Without it the file is whole, and
            // its space may be enough for the next block. If truncating fails too, the checksum
            // catches the torn block, or the next block overwrites it.
            Err(_) => {
                let _ = self.file.set_len(self.bytes());
                let _ = self.file.seek(SeekFrom::Start(self.bytes()));
            }
        }
        outcome
    }

    fn write_both(&mut self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < head.len() + payload.len() {
            let slices = [
                IoSlice::new(&head[done.min(head.len())..]),
                IoSlice::new(&payload[done.saturating_sub(head.len())..]),
            ];
            match self.file.write_vectored(&slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
