//! Bounds on abbreviations, checked before any reading by them.
//!
//! Every unit of debug information names a table of abbreviations by its offset, and reading the
//! unit reads that table. Units of a dozen bytes may all name overlapping tables without an end:
//! reading both then costs the product of their sizes. And an entry of one byte may have an
//! abbreviation of any number of attributes that take no bytes. Compilers write separate tables,
//! and entries with some tens of attributes. Source: DWARF 5, 7.5.1 and 7.5.3.

use crate::{SymbolError, image::Slice};
use addr2line::gimli::{Dwarf, Reader, Section, constants};
use std::collections::HashSet;

/// All tables together are at most this many times their section: none should be read twice.
const OVERLAP_MAX: usize = 4;
/// Most attributes of one abbreviation.
const ATTRIBUTES_MAX: u32 = 1024;

/// The remaining budget for the tables of one file.
#[derive(Debug)]
pub(crate) struct Bounds {
    left_bytes: usize,
    known: HashSet<*const u8>,
}

impl Bounds {
    /// For sections of this many bytes in all.
    pub(crate) fn new(section_bytes: usize) -> Bounds {
        Bounds { left_bytes: section_bytes.saturating_mul(OVERLAP_MAX), known: HashSet::new() }
    }

    /// Checks the tables of all units of `dwarf`, each once. Leaves damage to the later reader.
    ///
    /// # Errors
    /// The tables are larger than any real file's.
    pub(crate) fn check(&mut self, dwarf: &Dwarf<Slice<'_>>) -> Result<(), SymbolError> {
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let mut table = *dwarf.debug_abbrev.reader();
            if table.skip(header.debug_abbrev_offset().0).is_ok()
                && self.known.insert(table.slice().as_ptr())
            {
                self.table(table)?;
            }
        }
        Ok(())
    }

    fn table(&mut self, mut table: Slice<'_>) -> Result<(), SymbolError> {
        loop {
            let before = table.len();
            let more = abbreviation(&mut table)?;
            self.left_bytes = self.left_bytes.checked_sub(before - table.len()).ok_or_else(|| {
                SymbolError::Dwarf(format!("the abbreviations of its units are more than {OVERLAP_MAX} times their section"))
            })?;
            if !more {
                return Ok(());
            }
        }
    }
}

/// Skips one abbreviation; returns whether one was there.
fn abbreviation(table: &mut Slice<'_>) -> Result<bool, SymbolError> {
    let mut head = || {
        (
            table.read_uleb128().ok().filter(|code| *code != 0),
            table.read_uleb128().ok(),
            table.read_u8().ok(),
        )
    };
    if !matches!(head(), (Some(_), Some(_), Some(_))) {
        return Ok(false);
    }
    for _ in 0..=ATTRIBUTES_MAX {
        let (Ok(name), Ok(form)) = (table.read_uleb128(), table.read_uleb128()) else {
            return Ok(false);
        };
        if form == u64::from(constants::DW_FORM_implicit_const.0) && table.read_sleb128().is_err() {
            return Ok(false);
        }
        if (name, form) == (0, 0) {
            return Ok(true);
        }
    }
    Err(SymbolError::Dwarf(format!("an abbreviation has more than {ATTRIBUTES_MAX} attributes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use addr2line::gimli::{EndianSlice, RunTimeEndian, SectionId};

    /// Units of DWARF 4 with an entry of one byte each, and the offsets of their abbreviations.
    fn units(offsets: impl Iterator<Item = u32>) -> Vec<u8> {
        let unit = |offset: u32| {
            [&8_u32.to_le_bytes()[..], &4_u16.to_le_bytes(), &offset.to_le_bytes(), &[8, 1]]
                .concat()
        };
        offsets.flat_map(unit).collect()
    }

    fn checked(info: &[u8], abbreviations: &[u8]) -> Result<(), String> {
        let section = |id| match id {
            SectionId::DebugInfo => info,
            SectionId::DebugAbbrev => abbreviations,
            _ => &[],
        };
        let dwarf =
            Dwarf::load(|id| Ok::<_, ()>(EndianSlice::new(section(id), RunTimeEndian::Little)))
                .unwrap();
        Bounds::new(abbreviations.len()).check(&dwarf).map_err(|error| error.to_string())
    }

    /// An abbreviation with this many attributes that take no bytes (DW_AT_external,
    /// DW_FORM_flag_present).
    fn abbreviation_of(attributes: usize) -> Vec<u8> {
        [&[1, 0x11, 0][..], &[0x3f, 0x19].repeat(attributes), &[0, 0]].concat()
    }

    #[test]
    fn tables_that_overlap_are_refused_and_shared_ones_are_not() {
        let one = abbreviation_of(3);
        let endless = one.repeat(1000);
        let step = one.len() as u32;
        assert_eq!(checked(&units((0..1000).map(|_| 0)), &endless), Ok(()), "shared");
        let error = checked(&units((0..1000).map(|unit| unit * step)), &endless).unwrap_err();
        assert!(error.contains("more than 4 times their section"), "{error}");
        let apart = [&one[..], &[0]].concat();
        let offsets = (0..1000).map(|unit| unit * (step + 1));
        assert_eq!(checked(&units(offsets), &apart.repeat(1000)), Ok(()), "apart");
        assert_eq!(
            checked(&units([7, u32::MAX].into_iter()), &[1, 0x80]),
            Ok(()),
            "damaged ones are not read either"
        );
    }

    #[test]
    fn attributes_without_bytes_are_bounded() {
        let most = ATTRIBUTES_MAX as usize;
        assert_eq!(checked(&units([0].into_iter()), &abbreviation_of(most)), Ok(()));
        let error = checked(&units([0].into_iter()), &abbreviation_of(most + 1)).unwrap_err();
        assert!(error.contains("more than 1024 attributes"), "{error}");
    }
}
