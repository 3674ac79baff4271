//! Split DWARF: the compiler leaves a skeleton of each unit in the program and writes the rest, functions and what is
//! inlined into them, to another file (`-gsplit-dwarf`). That is a `.dwo` file a unit, or one `.dwp` package of them all.
//!
//! Skeleton and unit have an id of 64 bits in common, which is all that says that they belong together: a unit is used only
//! if it has the skeleton's id, wherever its file was found. Source: DWARF 5, sections 3.1.2 and 7.3, and GNU's older form
//! of it for DWARF 4.
//!
//! A `.dwo` file may hold other units too (types, or several units after link-time optimisation), and addr2line takes the
//! first one; therefore it is shown the one that is meant, and nothing else.

use crate::{Image, SymbolError, image::Slice};
use addr2line::gimli::{self, DebugInfo, Dwarf, DwoId, Reader, Section, UnitHeader, UnitType};
use std::{collections::BTreeMap, sync::Arc};

/// A unit of debug information that lies in another file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SplitUnit {
    /// What it must be known by there.
    pub id: u64,
    /// Name of the file, as the compiler was given it.
    pub file: Vec<u8>,
    /// The folder in which the compiler ran, which `file` is relative to; empty: not known.
    pub folder: Vec<u8>,
}

impl SplitUnit {
    pub(crate) fn of(load: &addr2line::SplitDwarfLoad<Slice<'_>>) -> SplitUnit {
        let text = |text: Option<Slice<'_>>| text.map_or(Vec::new(), |text| text.slice().to_vec());
        SplitUnit { id: load.dwo_id.0, file: text(load.path), folder: text(load.comp_dir) }
    }
}

/// The units found in other files, by id.
pub(crate) type SplitUnits<'a> = BTreeMap<u64, Arc<Dwarf<Slice<'a>>>>;

impl Image {
    /// Whether it is a package of split DWARF that holds units.
    pub fn is_split_package(&self) -> bool {
        self.package().is_ok_and(|package| package.cu_index.unit_count() > 0)
    }

    /// Whether the unit `id` of split DWARF is in this file, be it a `.dwo` file or a package.
    ///
    /// # Errors
    /// Its debug information is damaged.
    pub fn holds_split_unit(&self, id: u64) -> Result<bool, SymbolError> {
        let (parent, _) = self.split_dwarf()?;
        Ok(find(self, id, &parent)?.is_some())
    }
}

/// The unit `id` of `file`, whose skeleton is in `parent`: all sections, with no other unit.
pub(crate) fn find<'a>(file: &'a Image, id: u64, parent: &Dwarf<Slice<'a>>) -> Result<Option<Dwarf<Slice<'a>>>, SymbolError> {
    let damaged = |error: gimli::Error| SymbolError::Dwarf(error.to_string());
    let package = file.package()?;
    if package.cu_index.unit_count() > 0 {
        let Some(mut dwarf) = package.find_cu(DwoId(id), parent).map_err(damaged)? else { return Ok(None) };
        return Ok(keep_only(&mut dwarf, id).map_err(damaged)?.then_some(dwarf));
    }
    let (mut dwarf, sections) = file.split_dwarf()?;
    dwarf.make_dwo(parent);
    for section in sections {
        dwarf.debug_info = DebugInfo::from(section);
        if keep_only(&mut dwarf, id).map_err(damaged)? {
            return Ok(Some(dwarf));
        }
    }
    Ok(None)
}

/// Takes all units but the unit `id` out of `dwarf`; false if it has no such unit.
fn keep_only(dwarf: &mut Dwarf<Slice<'_>>, id: u64) -> Result<bool, gimli::Error> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        if let Some(offset) = header.debug_info_offset()
            && id_of(dwarf, header)? == Some(id)
        {
            let mut unit = *dwarf.debug_info.reader();
            unit.skip(offset.0)?;
            unit.truncate(header.length_including_self())?;
            dwarf.debug_info = DebugInfo::from(unit);
            return Ok(true);
        }
    }
    Ok(false)
}

/// The id is in the header since DWARF 5, and was an attribute before.
fn id_of(dwarf: &Dwarf<Slice<'_>>, header: UnitHeader<Slice<'_>>) -> Result<Option<u64>, gimli::Error> {
    match header.type_() {
        UnitType::SplitCompilation(DwoId(id)) => Ok(Some(id)),
        UnitType::Compilation => Ok(dwarf.unit(header)?.dwo_id.map(|id| id.0)),
        _ => Ok(None),
    }
}
