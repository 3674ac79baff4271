//! One ELF file in memory: its identity, its links to debug files, and its debug sections,
//! decompressed if compressed (`.zdebug_*`, `SHF_COMPRESSED` with zlib or zstd). The sections of
//! split DWARF (`.debug_*.dwo`, and the index of a package) are read in the same way.
//!
//! An [`Image`] owns bytes; a [`crate::Resolver`] borrows them. Lookups need no reference counts.

use crate::{SymbolError, mini, split::SplitIndex, symbol_table::SymbolTable};
use addr2line::gimli::{
    self, Dwarf, DwarfPackage, DwarfSections, EndianSlice, Reader, RunTimeEndian, SectionId,
};
use object::{CompressionFormat, Object, ObjectSection, SectionFlags, SectionIndex};
use std::{
    borrow::Cow,
    cell::OnceCell,
    fmt,
    ops::{Deref, Range},
};

/// Decompressed debug information is at most this many times the length of its file (real files
/// stay below 20) ...
const EXPANSION_MAX: u64 = 256;
/// ... and small files may have this many bytes anyway.
const EXPANSION_MIN_BYTES: u64 = 1 << 20;

/// A reader of debug sections.
pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// The GNU build id of a file: identifies the linked program, the same for a program and its
/// separate debug file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// The build id written as hexadecimal digits; `None` for an empty text or anything else.
    pub fn from_hex(text: &str) -> Option<BuildId> {
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
        let digits =
            digits.filter(|digits| !digits.is_empty() && digits.len().is_multiple_of(2))?;
        Some(BuildId(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
    }

    /// Its bytes; 20 in most files.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// The bytes of a file, mapped or owned.
pub trait Bytes: Deref<Target = [u8]> + Send {}
impl<T: Deref<Target = [u8]> + Send> Bytes for T {}

/// One ELF file.
pub struct Image {
    bytes: Box<dyn Bytes>,
    build_id: Option<BuildId>,
    debug_link: Option<(Vec<u8>, u32)>,
    alternate_link: Option<(Vec<u8>, BuildId)>,
    /// The id by which files that share it know it, beside the build id.
    shared_id: Option<BuildId>,
    decompressed: Vec<(SectionIndex, Vec<u8>)>,
    split_index: OnceCell<SplitIndex>,
}

impl fmt::Debug for Image {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Image")
            .field("bytes", &self.bytes.len())
            .field("build_id", &self.build_id)
            .finish_non_exhaustive()
    }
}

impl Image {
    /// Reads the headers of `bytes` and decompresses the debug sections.
    ///
    /// # Errors
    /// The bytes are no ELF file, a damaged one, or a compressed section claims an unreasonable
    /// length.
    pub fn parse(bytes: impl Bytes + 'static) -> Result<Image, SymbolError> {
        let file_bytes = bytes.len() as u64;
        Image::parse_of(bytes, file_bytes)
    }

    /// As [`Image::parse`], for an image made of `file_bytes` bytes of a file.
    fn parse_of(bytes: impl Bytes + 'static, file_bytes: u64) -> Result<Image, SymbolError> {
        let bytes: Box<dyn Bytes> = Box::new(bytes);
        let file = object::File::parse(&**bytes).map_err(elf)?;
        let build_id = file.build_id().map_err(elf)?.map(|id| BuildId(id.to_vec()));
        let debug_link =
            file.gnu_debuglink().map_err(elf)?.map(|(name, checksum)| (name.to_vec(), checksum));
        let gnu_link = file
            .gnu_debugaltlink()
            .map_err(elf)?
            .map(|(name, id)| (name.to_vec(), BuildId(id.to_vec())));
        let (dwarf5_link, shared_id) = match file
            .section_by_name(".debug_sup")
            .and_then(|section| supplementary(section.data().ok()?, endian(&file)))
        {
            Some((true, _, id)) => (None, Some(id)),
            Some((false, name, id)) => (Some((name, id)), None),
            None => (None, None),
        };
        let alternate_link = gnu_link.or(dwarf5_link);
        let decompressed = decompress(&file, file_bytes)?;
        drop(file);
        Ok(Image {
            bytes,
            build_id,
            debug_link,
            alternate_link,
            shared_id,
            decompressed,
            split_index: OnceCell::new(),
        })
    }

    /// Its build id, if any.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// Name and CRC-32 of its separate debug file (`.gnu_debuglink`).
    pub fn debug_link(&self) -> Option<(&[u8], u32)> {
        self.debug_link.as_ref().map(|(name, checksum)| (name.as_slice(), *checksum))
    }

    /// Name and build id of the file that several debug files share (`.gnu_debugaltlink` or DWARF
    /// 5's `.debug_sup`, made by dwz).
    pub fn alternate_link(&self) -> Option<(&[u8], &BuildId)> {
        self.alternate_link.as_ref().map(|(name, id)| (name.as_slice(), id))
    }

    /// Whether an alternate link to `id` means this file.
    pub fn is_alternate(&self, id: &BuildId) -> bool {
        self.build_id.as_ref() == Some(id) || self.shared_id.as_ref() == Some(id)
    }

    /// CRC-32 of the whole file, as `.gnu_debuglink` has it.
    pub fn checksum(&self) -> u32 {
        crc32fast::hash(&self.bytes)
    }

    /// Whether it has debug information on functions, not only line tables or symbols.
    pub fn has_debug_information(&self) -> bool {
        self.file().is_ok_and(|file| {
            self.section(&file, SectionId::DebugInfo.name()).is_some_and(|bytes| !bytes.is_empty())
        })
    }

    /// The embedded ELF file with the symbols that its own tables lack (`.gnu_debugdata`, called
    /// MiniDebugInfo): `None` without one.
    ///
    /// # Errors
    /// The embedded file is damaged, expands beyond bounds, or belongs to another build.
    pub fn mini_debug_information(&self) -> Option<Result<Image, SymbolError>> {
        let file = self.file().ok()?;
        let section = file.section_by_name(".gnu_debugdata")?;
        // Bound nested sections by the compressed size.
        let parse = |packed: &[u8]| {
            Image::parse_of(mini::unpack(packed)?, packed.len() as u64)
                .map_err(|error| SymbolError::Mini(error.to_string()))
        };
        let inner = section.data().map_err(elf).and_then(parse);
        Some(inner.and_then(|inner| match (inner.build_id(), self.build_id()) {
            (Some(found), Some(wanted)) if found != wanted => Err(SymbolError::Mini(format!(
                "they are those of another build (build id {found})"
            ))),
            _ => Ok(inner),
        }))
    }

    /// The debug sections, for reading.
    pub(crate) fn dwarf(&self) -> Result<Dwarf<Slice<'_>>, SymbolError> {
        Ok(self.load(|id| Some(id.name()))?.borrow(|section| *section))
    }

    /// The debug sections of a file of split DWARF, for reading, and its sections of units: one
    /// section for each type that the compiler put apart (`-fdebug-types-section`), all of the same
    /// name.
    pub(crate) fn split_dwarf(
        &self,
    ) -> Result<(DwarfSections<Slice<'_>>, Vec<Slice<'_>>), SymbolError> {
        let file = self.file()?;
        let are_units = |section: &object::Section<'_, '_>| {
            section.name().ok().and_then(wanted) == SectionId::DebugInfo.dwo_name()
        };
        let units = file
            .sections()
            .filter(are_units)
            .filter_map(|section| Some(Slice::new(self.content(&section)?, endian(&file))));
        Ok((self.load(|id| id.dwo_name())?, units.collect()))
    }

    /// The places of its units of split DWARF.
    pub(crate) fn split_index(&self) -> &SplitIndex {
        self.split_index.get_or_init(|| SplitIndex::of(self))
    }

    /// The index and the debug sections of a package of split DWARF.
    pub(crate) fn package(&self) -> Result<DwarfPackage<Slice<'_>>, SymbolError> {
        let file = self.file()?;
        let slice = |name: Option<&str>| {
            Slice::new(
                name.and_then(|name| self.section(&file, name)).unwrap_or_default(),
                endian(&file),
            )
        };
        DwarfPackage::load(|id| Ok(slice(id.dwo_name())), slice(None))
            .map_err(|error: gimli::Error| SymbolError::Dwarf(error.to_string()))
    }

    fn load(
        &self,
        name: impl Fn(SectionId) -> Option<&'static str>,
    ) -> Result<DwarfSections<Slice<'_>>, SymbolError> {
        let file = self.file()?;
        let section = |id| name(id).and_then(|name| self.section(&file, name)).unwrap_or_default();
        DwarfSections::load(|id| Ok(Slice::new(section(id), endian(&file))))
    }

    /// The symbol tables.
    pub(crate) fn symbols(&self) -> Result<SymbolTable<'_>, SymbolError> {
        Ok(SymbolTable::of(&self.file()?))
    }

    /// The addresses of code, by section.
    pub(crate) fn code(&self) -> Vec<Range<u64>> {
        let Ok(file) = self.file() else { return Vec::new() };
        let is_code = |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(object::elf::SHF_EXECINSTR));
        let code = file.sections().filter(|section| is_code(section.flags()));
        code.map(|section| section.address()..section.address().saturating_add(section.size()))
            .collect()
    }

    fn file(&self) -> Result<object::File<'_>, SymbolError> {
        object::File::parse(&**self.bytes).map_err(elf)
    }

    /// The first section called `name`, or by its older name if compressed.
    fn section<'a>(&'a self, file: &object::File<'a>, name: &str) -> Option<&'a [u8]> {
        self.content(&file.section_by_name(name)?)
    }

    fn content<'a>(&'a self, section: &object::Section<'a, '_>) -> Option<&'a [u8]> {
        let decompressed = self.decompressed.iter().find(|(index, _)| *index == section.index());
        decompressed.map(|(_, bytes)| bytes.as_slice()).or_else(|| section.data().ok())
    }
}

fn endian(file: &object::File<'_>) -> RunTimeEndian {
    if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big }
}

/// Parses a section `.debug_sup` (DWARF 5, 7.3.6): whether this is the shared file, the shared
/// file's name, and its id, a checksum of any length. `None` for a damaged one.
fn supplementary(section: &[u8], endian: RunTimeEndian) -> Option<(bool, Vec<u8>, BuildId)> {
    let mut rest = Slice::new(section, endian);
    let (version, is_shared) = (rest.read_u16().ok()?, rest.read_u8().ok()?);
    let name = rest.read_null_terminated_slice().ok()?;
    let length = rest.read_uleb128().ok()?;
    let id = rest.split(usize::try_from(length).ok()?).ok()?;
    (version == 5 && is_shared <= 1 && length > 0)
        .then(|| (is_shared == 1, name.slice().to_vec(), BuildId(id.slice().to_vec())))
}

/// Decompresses the compressed sections, within bounds.
fn decompress(
    file: &object::File<'_>,
    file_bytes: u64,
) -> Result<Vec<(SectionIndex, Vec<u8>)>, SymbolError> {
    let mut left_bytes = file_bytes.saturating_mul(EXPANSION_MAX).max(EXPANSION_MIN_BYTES);
    let mut sections = Vec::new();
    for section in file.sections() {
        let Some(name) = section.name().ok().and_then(wanted) else { continue };
        let compressed = section.compressed_data().map_err(elf)?;
        if compressed.format == CompressionFormat::None {
            continue;
        }
        let claimed_bytes = compressed.uncompressed_size;
        if claimed_bytes > left_bytes {
            return Err(SymbolError::TooLarge {
                section: name.into(),
                claimed_bytes,
                limit_bytes: left_bytes,
            });
        }
        left_bytes -= claimed_bytes;
        if let Cow::Owned(bytes) = compressed.decompress().map_err(elf)? {
            sections.push((section.index(), bytes));
        }
    }
    Ok(sections)
}

/// The sections needed for names and lines.
const SECTIONS: [SectionId; 11] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// The sections of split DWARF: those with their own name there, the index of a package, and the
/// sections that this index describes (each must lie within its section, used or not).
const SPLIT_SECTIONS: [SectionId; 12] = [
    SectionId::DebugAbbrev,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
    SectionId::DebugCuIndex,
];

/// The standard name of a section called `name`, if it is one of these; `.zdebug_info` is an older
/// name of `.debug_info`.
fn wanted(name: &str) -> Option<&'static str> {
    let plain = name.strip_prefix(".z").or(name.strip_prefix('.'))?;
    let mut names = SECTIONS
        .iter()
        .map(|id| id.name())
        .chain(SPLIT_SECTIONS.iter().filter_map(|id| id.dwo_name()));
    names.find(|known| known[1..] == *plain)
}

fn elf(error: object::Error) -> SymbolError {
    SymbolError::Elf(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_are_read_from_hexadecimal() {
        assert_eq!(BuildId::from_hex("00fF10").unwrap().to_string(), "00ff10");
        for text in ["", "0", "0g", "00 ", "é0"] {
            assert_eq!(BuildId::from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn links_of_dwarf_5_are_read_within_their_section() {
        let section = b"\x05\0\0shared\0\x03abc";
        let read = |section: &[u8]| supplementary(section, RunTimeEndian::Little);
        assert_eq!(read(section), Some((false, b"shared".to_vec(), BuildId(b"abc".to_vec()))));
        assert_eq!(read(b"\x05\0\x01\0\x01a"), Some((true, Vec::new(), BuildId(b"a".to_vec()))));
        for length in 0..section.len() {
            assert_eq!(read(&section[..length]), None);
        }
        assert_eq!(read(b"\x05\0\0shared\0\xff\xff\xff\xff\xff\xff\xff\xff\x7fabc"), None);
        assert_eq!(read(b"\x04\0\0shared\0\x03abc"), None);
    }

    #[test]
    fn what_is_no_elf_file_is_refused() {
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 64]] {
            assert!(matches!(Image::parse(bytes), Err(SymbolError::Elf(_))), "{bytes:?}");
        }
    }
}
