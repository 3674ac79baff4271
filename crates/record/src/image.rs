//! A process file (`PID-SEQ.process`), parsed from bytes: the process image's identity, modules and
//! losses.
//!
//! Pure functions over untrusted bytes: `recover` reads the remains of a crash, and a broken target
//! may have written anything.

use crate::proc_fs::Memory;
use crate::python::{Code, Python, name_of};
use heaplab_preload::layout::{self, ProcessHeader};
use std::mem::{offset_of, size_of};

/// Longest text or path believed, bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// The content of a process file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The operating system's number.
    pub pid: u32,
    /// Counts the images of that number.
    pub seq: u32,
    /// Its parent when it began.
    pub ppid: u32,
    /// `BEGAN_...` of the layout.
    pub began: u32,
    /// After a fork: pid and seq of the copied image.
    pub parent: Option<(u32, u32)>,
    /// `X86_64` or `AARCH64` of the layout.
    pub architecture: u32,
    /// Start of the process, in the kernel's ticks; 0: unknown.
    pub start_ticks: u64,
    /// Counter at the image's start.
    pub begin_counter: u64,
    /// Counter at the cut and its reason (`CUT_...`), if recording stopped early.
    pub cut: Option<(u64, u32)>,
    /// Status passed to exit() or _exit(), and the counter.
    pub exit: Option<(i32, u64)>,
    /// Its memory at exit.
    pub exit_memory: Option<Memory>,
    /// Rings made.
    pub ring_count: u32,
    /// Whether the first ring, in this file, and its nested ring hold records.
    pub first_ring_waits: [bool; 2],
    /// Counts of missing things, by reason (`LOST_...`).
    pub lost: [u64; layout::LOST_REASONS],
    /// The executable's path.
    pub executable: Vec<u8>,
    /// Its arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Modules, in the order in which they were loaded.
    pub modules: Vec<ImageModule>,
    /// What it says of Python.
    pub python: Python,
    /// The records end in damage.
    pub damaged: bool,
}

/// A module of a process image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageModule {
    /// Its number in the image.
    pub index: u32,
    /// Address in memory less address in the file.
    pub bias: u64,
    /// Start of its segments.
    pub start: u64,
    /// End of its segments.
    pub end: u64,
    /// Counter of loading.
    pub loaded: u64,
    /// Counter of unloading.
    pub unloaded: Option<u64>,
    /// GNU build id.
    pub build_id: Vec<u8>,
    /// Its path.
    pub path: Vec<u8>,
}

impl ImageModule {
    /// Whether it was loaded at `stamp`.
    pub fn was_there(&self, stamp: u64) -> bool {
        self.loaded <= stamp && self.unloaded.is_none_or(|end| stamp < end)
    }
}

/// Bounds-checked access to untrusted bytes: outside of them everything is absent.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn u32(self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.0.get(at..at.checked_add(4)?)?.try_into().ok()?))
    }
    fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.0.get(at..at.checked_add(8)?)?.try_into().ok()?))
    }
    fn slice(self, at: usize, length: usize) -> Option<&'a [u8]> {
        self.0.get(at..at.checked_add(length)?)
    }
}

/// Why bytes are not a process file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageDamage {
    /// No magic (yet): the file is not valid.
    #[error("the process that made it never finished it")]
    Unfinished,
    /// Another value in the magic's place.
    #[error("it does not begin with the right magic number")]
    Magic,
    /// Another layout version.
    #[error("its layout has version {0}; this heaplab reads version {version}", version = layout::VERSION)]
    Version(u32),
    /// Too short for its own header.
    #[error("it is shorter than its header")]
    Short,
}

/// Refuses a file that is not whole yet, or no process file of this version.
fn check_header(bytes: &[u8]) -> Result<(), ImageDamage> {
    // The file gets its whole length in one step.
    if bytes.is_empty() {
        return Err(ImageDamage::Unfinished);
    }
    if bytes.len() < size_of::<ProcessHeader>() {
        return Err(ImageDamage::Short);
    }
    match Bytes(bytes).u64(offset_of!(ProcessHeader, magic)) {
        Some(layout::PROCESS_MAGIC) => {}
        Some(0) => return Err(ImageDamage::Unfinished),
        _ => return Err(ImageDamage::Magic),
    }
    match Bytes(bytes).u32(offset_of!(ProcessHeader, version)).unwrap_or(0) {
        layout::VERSION => Ok(()),
        version => Err(ImageDamage::Version(version)),
    }
}

impl Image {
    /// Bytes of the file up to the end of its first area of records, by its header; 0 without one.
    pub fn used_bytes(header: &[u8]) -> u64 {
        let field = |at: usize| Bytes(header).u64(at).unwrap_or(0);
        let records = field(offset_of!(ProcessHeader, records_used))
            .min(field(offset_of!(ProcessHeader, records_capacity)));
        field(offset_of!(ProcessHeader, records_offset)).saturating_add(records)
    }

    /// Offset of the second area of records and its used bytes, by the header.
    pub fn more_records(header: &[u8]) -> (u64, u64) {
        let field = |at: usize| Bytes(header).u64(at).unwrap_or(0);
        let used = field(offset_of!(ProcessHeader, more_used))
            .min(field(offset_of!(ProcessHeader, more_capacity)));
        (field(offset_of!(ProcessHeader, more_offset)), used)
    }

    /// Parses a process file: its beginning, up to the end of the first area of records, and the
    /// used part of the second. Leaves unreadable records out and sets `damaged`.
    pub fn parse(bytes: &[u8], more: &[u8]) -> Result<Image, ImageDamage> {
        check_header(bytes)?;
        let whole = Bytes(bytes);
        let u32_at = |at: usize| whole.u32(at).unwrap_or(0);
        let u64_at = |at: usize| whole.u64(at).unwrap_or(0);
        let began = u32_at(offset_of!(ProcessHeader, began));
        let mut image = Image {
            pid: u32_at(offset_of!(ProcessHeader, pid)),
            seq: u32_at(offset_of!(ProcessHeader, seq)),
            ppid: u32_at(offset_of!(ProcessHeader, ppid)),
            began,
            parent: (began == layout::BEGAN_FORK).then(|| {
                (
                    u32_at(offset_of!(ProcessHeader, parent_pid)),
                    u32_at(offset_of!(ProcessHeader, parent_seq)),
                )
            }),
            architecture: u32_at(offset_of!(ProcessHeader, architecture)),
            start_ticks: u64_at(offset_of!(ProcessHeader, start_ticks)),
            begin_counter: u64_at(offset_of!(ProcessHeader, begin_counter)),
            cut: (u32_at(offset_of!(ProcessHeader, state)) == layout::PROCESS_CUT).then(|| {
                (
                    u64_at(offset_of!(ProcessHeader, cut_counter)),
                    u32_at(offset_of!(ProcessHeader, cut_reason)),
                )
            }),
            exit: (u32_at(offset_of!(ProcessHeader, exited)) == 1).then(|| {
                (
                    u32_at(offset_of!(ProcessHeader, exit_status)) as i32,
                    u64_at(offset_of!(ProcessHeader, exit_counter)),
                )
            }),
            exit_memory: Some(Memory {
                resident_bytes: u64_at(offset_of!(ProcessHeader, exit_resident_bytes)),
                anonymous_bytes: u64_at(offset_of!(ProcessHeader, exit_anonymous_bytes)),
                resident_peak_bytes: u64_at(offset_of!(ProcessHeader, exit_resident_peak_bytes)),
            })
            .filter(|memory| {
                memory.resident_bytes > 0 && u32_at(offset_of!(ProcessHeader, exited)) == 1
            }),
            ring_count: u32_at(offset_of!(ProcessHeader, ring_count)),
            first_ring_waits: [
                u64_at(offset_of!(ProcessHeader, first_ring.head))
                    != u64_at(offset_of!(ProcessHeader, first_ring.tail)),
                u64_at(offset_of!(ProcessHeader, first_ring.nested_head))
                    != u64_at(offset_of!(ProcessHeader, first_ring.nested_tail)),
            ],
            ..Image::default()
        };
        for (index, lost) in image.lost.iter_mut().enumerate() {
            *lost = u64_at(offset_of!(ProcessHeader, lost) + 8 * index);
        }
        let begin = u64_at(offset_of!(ProcessHeader, records_offset)) as usize;
        let used = u64_at(offset_of!(ProcessHeader, records_used))
            .min(u64_at(offset_of!(ProcessHeader, records_capacity))) as usize;
        let first = whole.slice(begin, used).and_then(|records| image.read_records(records));
        let is_short = more.len() as u64 != Image::more_records(bytes).1;
        image.damaged = first.and_then(|()| image.read_records(more)).is_none() || is_short;
        Ok(image)
    }

    /// Reads all records; `None` if one is unreadable.
    fn read_records(&mut self, records: &[u8]) -> Option<()> {
        let mut at = 0;
        while at < records.len() {
            let rest = Bytes(&records[at..]);
            let kind = rest.u32(offset_of!(layout::Record, kind))?;
            let length = rest.u32(offset_of!(layout::Record, bytes))? as usize;
            if length < size_of::<layout::Record>() || !length.is_multiple_of(8) {
                return None;
            }
            self.read_record(kind, Bytes(rest.slice(0, length)?))?;
            at += length;
        }
        Some(())
    }

    fn read_record(&mut self, kind: u32, record: Bytes<'_>) -> Option<()> {
        let counter = record.u64(offset_of!(layout::Record, counter))?;
        match kind {
            layout::RECORD_EXECUTABLE | layout::RECORD_COMMAND_LINE => {
                let length = record.u32(offset_of!(layout::Text, text_bytes))? as usize;
                let text = record
                    .slice(size_of::<layout::Text>(), length)
                    .filter(|text| text.len() <= TEXT_BYTES_MAX)?;
                if kind == layout::RECORD_EXECUTABLE {
                    self.executable = text.to_vec();
                } else {
                    let text = text.strip_suffix(b"\0").unwrap_or(text);
                    self.arguments = text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
                }
            }
            layout::RECORD_MODULE => {
                let id_length = record.u32(offset_of!(layout::Module, build_id_bytes))? as usize;
                let path_length = record.u32(offset_of!(layout::Module, path_bytes))? as usize;
                let head = size_of::<layout::Module>();
                self.modules.push(ImageModule {
                    index: record.u32(offset_of!(layout::Module, index))?,
                    bias: record.u64(offset_of!(layout::Module, bias))?,
                    start: record.u64(offset_of!(layout::Module, start))?,
                    end: record.u64(offset_of!(layout::Module, end))?,
                    loaded: counter,
                    unloaded: None,
                    build_id: record.slice(head, id_length)?.to_vec(),
                    path: record.slice(head.checked_add(id_length)?, path_length)?.to_vec(),
                });
            }
            layout::RECORD_MODULE_UNLOADED => {
                let index = record.u32(offset_of!(layout::Unloaded, index))?;
                if let Some(module) =
                    self.modules.iter_mut().rev().find(|module| module.index == index)
                {
                    module.unloaded = Some(counter);
                }
            }
            layout::RECORD_CODE => {
                let name = record.u32(offset_of!(layout::Code, name_bytes))? as usize;
                let file = record.u32(offset_of!(layout::Code, file_bytes))? as usize;
                let number = record.u32(offset_of!(layout::Code, number))?;
                let head = size_of::<layout::Code>();
                let code = Code {
                    name: name_of(record.slice(head, name)?),
                    file: name_of(record.slice(head.checked_add(name)?, file)?),
                };
                self.python.codes.insert(number, code);
            }
            layout::RECORD_PYTHON => {
                self.python.verdict = Some((
                    record.u32(offset_of!(layout::Python, verdict))?,
                    record.u32(offset_of!(layout::Python, version))?,
                ));
            }
            _ => {}
        }
        Some(())
    }

    /// The module (its index in `modules`) of return address `ip` at `stamp`.
    pub fn module_of(&self, stamp: u64, ip: u64) -> Option<usize> {
        self.modules
            .iter()
            .enumerate()
            .filter(|(_, module)| module.start <= ip && ip < module.end && module.loaded <= stamp)
            .max_by_key(|(place, module)| (module.loaded, *place))
            .filter(|(_, module)| module.was_there(stamp))
            .map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_module_is_the_latest_that_was_there() {
        let module = |index, loaded, unloaded| ImageModule {
            index,
            start: 0x1000,
            end: 0x2000,
            loaded,
            unloaded,
            ..Default::default()
        };
        let image = Image {
            modules: vec![module(0, 0, Some(10)), module(1, 20, None)],
            ..Image::default()
        };
        assert_eq!(image.module_of(5, 0x1800), Some(0));
        assert_eq!(image.module_of(15, 0x1800), None, "unloaded, and the next is not there yet");
        assert_eq!(image.module_of(25, 0x1800), Some(1));
        assert_eq!(image.module_of(25, 0x2000), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], size_of::<ProcessHeader>()..1500), offset in 0_u64..600, used in 0_u64..2000) {
            let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
            put(0, &layout::PROCESS_MAGIC.to_le_bytes());
            put(offset_of!(ProcessHeader, version), &layout::VERSION.to_le_bytes());
            put(offset_of!(ProcessHeader, records_offset), &offset.to_le_bytes());
            put(offset_of!(ProcessHeader, records_used), &used.to_le_bytes());
            put(offset_of!(ProcessHeader, more_used), &used.to_le_bytes());
            let (head, more) = bytes.split_at(bytes.len() - (used as usize).min(bytes.len() - size_of::<ProcessHeader>()));
            let image = Image::parse(head, more).unwrap();
            prop_assert!(image.modules.len() <= bytes.len() / 8);
            let _ = image.module_of(3, 77);
        }
    }
}
