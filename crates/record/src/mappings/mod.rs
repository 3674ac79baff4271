//! The mappings of a process with their resident bytes, from the kernel at one moment.
//!
//! Sources: `/proc/PID/smaps` for the mappings, `/proc/PID/pagemap` for the resident pages of
//! anonymous mappings that are resident in part (proc_pid_smaps(5), proc_pid_pagemap(5)),
//! `/proc/PID/task/TID/syscall` for the stack pointers of threads that wait, and a JVM's own
//! account ([`jvm`]). Reading them costs the target the kernel's read lock on its address space for
//! each mapping, so [`sampler`] bounds how often it happens.
//!
//! Deviations: the kernel gives no atomic picture. A program that maps and unmaps meanwhile may
//! have a page in two rows, or in none; rows that overlap an earlier one are left out.

pub mod jvm;
mod pages;
pub mod sampler;
mod smaps;

use heaplab_trace::tables::ResidentKind;
use serde::{Deserialize, Serialize};

/// Most anonymous rows of a reading; the smallest beyond are one row without an address.
const ROWS_MAX: usize = 4096;
/// Most files of a reading; the smallest beyond are one row without a name.
const FILES_MAX: usize = 2048;

/// Resident bytes of one file, by kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    /// Code, data, other pages, shared memory, the recorder's, the kernel's.
    pub kind: ResidentKind,
    /// The file as `/proc` names it.
    pub name: String,
    /// Resident bytes.
    pub bytes: u64,
    /// Of these, bytes in huge pages.
    pub huge_bytes: u64,
    /// Mappings of that kind.
    pub mappings: u32,
}

/// Facts about an anonymous mapping, as bits of [`AnonymousRow::facts`].
pub mod facts {
    /// The mapping has the flags of the recorder's own memory (MAP_NORESERVE and MADV_DONTDUMP), or
    /// is the recorder's zeroed data.
    pub const RECORDERS: u8 = 1;
    /// A thread's stack pointer is in the mapping.
    pub const STACK: u8 = 2;
    /// The mapping has the shape of a glibc heap: it begins at a multiple of 64 MiB, and the rest
    /// of that size is reserved behind it.
    pub const GLIBC_HEAP: u8 = 4;
    /// It follows private pages of the file that `name` names: zeroed data.
    pub const ZEROED_DATA: u8 = 8;
}

/// An anonymous mapping with resident pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnonymousRow {
    /// First address. 0, with an `end` of 0: several mappings whose places were not kept.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Resident bytes.
    pub bytes: u64,
    /// Of these, bytes in huge pages.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub huge_bytes: u64,
    /// As `/proc` names it (`[heap]`, `[stack]`, `[anon:NAME]`), or the file of zeroed data.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// See [`facts`].
    #[serde(default, skip_serializing_if = "is_none")]
    pub facts: u8,
    /// For a partly resident mapping: lengths in pages of absent and resident stretches in turn, an
    /// absent one first. Empty: the whole mapping is resident, or its pages are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stretches: Vec<u32>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_none(facts: &u8) -> bool {
    *facts == 0
}

impl AnonymousRow {
    /// Whether a fact holds.
    pub fn has(&self, fact: u8) -> bool {
        self.facts & fact != 0
    }
}

/// A range of addresses whose purpose the process's runtime names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// The runtime and its word for the purpose: "JVM: Java Heap".
    pub name: String,
}

/// The runtime's figures of all regions of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Category {
    /// As [`Region::name`].
    pub name: String,
    /// Bytes of address space.
    pub reserved_bytes: u64,
    /// Of these, bytes that the runtime has committed.
    pub committed_bytes: u64,
}

/// A runtime's own account of its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Ranges, in order and apart.
    pub regions: Vec<Region>,
    /// Figures, from about the time of the note.
    pub categories: Vec<Category>,
}

/// The resident memory of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Pages of files, by name and kind.
    pub files: Vec<FilePart>,
    /// Anonymous mappings by address.
    pub anonymous: Vec<AnonymousRow>,
}

impl Reading {
    /// Resident bytes of all mappings.
    pub fn bytes(&self) -> u64 {
        let files = self.files.iter().map(|file| file.bytes);
        files.chain(self.anonymous.iter().map(|row| row.bytes)).sum()
    }

    /// Folds parts beyond the limits into one; no byte is lost.
    fn bound(&mut self) {
        if self.files.len() > FILES_MAX {
            self.files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
            let mut rest = FilePart {
                kind: ResidentKind::File,
                name: String::new(),
                bytes: 0,
                huge_bytes: 0,
                mappings: 0,
            };
            for file in self.files.drain(FILES_MAX..) {
                rest.bytes += file.bytes;
                rest.huge_bytes += file.huge_bytes;
                rest.mappings += file.mappings;
            }
            self.files.push(rest);
        }
        if self.anonymous.len() > ROWS_MAX {
            self.anonymous.sort_by_key(|row| std::cmp::Reverse(row.bytes));
            let mut rest = AnonymousRow::default();
            for row in self.anonymous.drain(ROWS_MAX..) {
                rest.bytes += row.bytes;
                rest.huge_bytes += row.huge_bytes;
            }
            self.anonymous.push(rest);
            self.anonymous.sort_by_key(|row| row.start);
        }
    }
}

#[cfg(test)]
mod tests;
