//! Split DWARF: the compiler leaves a skeleton of each unit in the program and writes the rest,
//! functions and their inlined functions, to another file (`-gsplit-dwarf`): a `.dwo` file a unit,
//! or one `.dwp` package of all.
//!
//! Skeleton and unit share an id of 64 bits, the only proof that they belong together: a unit is
//! used only with the skeleton's id, wherever its file was found. Source: DWARF 5, sections 3.1.2
//! and 7.3, and GNU's older form for DWARF 4.
//!
//! A `.dwo` file may hold other units too (types, or several units after link-time optimisation),
//! and addr2line takes the first one. So this code shows addr2line only the wanted unit.

use crate::{Image, SymbolError, abbreviations::Bounds, image::Slice};
use addr2line::gimli::{
    self, Abbreviations, AttributeValue, DebugInfo, DebugInfoOffset, Dwarf, DwoId, Reader, Section,
    UnitHeader, UnitType, constants,
};
use std::{collections::BTreeMap, sync::Arc};

/// Most bytes of abbreviations read to learn the ids of a file's units, if the ids stand behind
/// them (DWARF 4). Units with the same abbreviations read them once; a file of real units has less
/// than 1 MB of different ones.
const ABBREVIATIONS_MAX_BYTES: usize = 1 << 28;
/// Most units in one row of a package's index; tools write one.
const ROW_UNITS_MAX: usize = 16;

/// A unit of debug information in another file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SplitUnit {
    /// Its id there.
    pub id: u64,
    /// The file's name, as given to the compiler.
    pub file: Vec<u8>,
    /// The folder in which the compiler ran; `file` is relative to it. Empty: unknown.
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
    /// Whether it is a package of split DWARF with units.
    pub fn is_split_package(&self) -> bool {
        self.split_index().is_package
    }

    /// Whether the unit `id` of split DWARF is in this file, a `.dwo` file or a package.
    ///
    /// # Errors
    /// The unit is not among the readable ones, and the debug information is damaged.
    pub fn holds_split_unit(&self, id: u64) -> Result<bool, SymbolError> {
        Ok(self.split_index().find(id)?.is_some())
    }
}

/// The places of the units in a file of split DWARF. Made once a file: the file's writer controls
/// the number of its units and of the wanted ones, and a search for each would cost the product of
/// both.
#[derive(Debug, Default)]
pub(crate) struct SplitIndex {
    units: BTreeMap<u64, UnitPlace>,
    is_package: bool,
    /// The unreadable part; wanted units may be there.
    problem: Option<String>,
}

/// A unit's place.
#[derive(Clone, Copy, Debug)]
struct UnitPlace {
    /// Row of the package's index, from 1; otherwise the index of the section of units.
    part: usize,
    /// Offset in this part's debug information.
    start: usize,
    bytes: usize,
}

impl SplitIndex {
    /// The index of the units in `file`.
    pub(crate) fn of(file: &Image) -> SplitIndex {
        let mut scan =
            Scan { index: SplitIndex::default(), left_bytes: ABBREVIATIONS_MAX_BYTES, last: None };
        let found = scan.file(file);
        scan.note(found);
        scan.index
    }

    fn find(&self, id: u64) -> Result<Option<UnitPlace>, SymbolError> {
        match (self.units.get(&id), &self.problem) {
            (None, Some(problem)) => Err(SymbolError::Dwarf(problem.clone())),
            (place, _) => Ok(place.copied()),
        }
    }
}

/// Abbreviations, and the bytes they were read from.
type Abbreviated<'a> = (Slice<'a>, Arc<Abbreviations>);

struct Scan<'a> {
    index: SplitIndex,
    left_bytes: usize,
    /// The last abbreviations read: units of one file tend to share them.
    last: Option<Abbreviated<'a>>,
}

impl<'a> Scan<'a> {
    fn file(&mut self, file: &'a Image) -> Result<(), SymbolError> {
        let package = file.package()?;
        let rows = package.cu_index.unit_count();
        if rows > 0 {
            self.index.is_package = true;
            let parent = file.dwarf()?;
            for row in 1..=rows {
                let found = package
                    .cu_sections(row, &parent)
                    .map_err(damaged)
                    .and_then(|dwarf| self.part(&dwarf, row as usize, ROW_UNITS_MAX));
                self.note(found);
            }
            return Ok(());
        }
        let (sections, parts) = file.split_dwarf()?;
        let mut dwarf = sections.borrow(|section| *section);
        for (number, part) in parts.into_iter().enumerate() {
            dwarf.debug_info = DebugInfo::from(part);
            let found = self.part(&dwarf, number, usize::MAX);
            self.note(found);
        }
        Ok(())
    }

    fn note(&mut self, found: Result<(), SymbolError>) {
        match found {
            Err(SymbolError::Dwarf(problem)) => _ = self.index.problem.get_or_insert(problem),
            Err(problem) => _ = self.index.problem.get_or_insert_with(|| problem.to_string()),
            Ok(()) => {}
        }
    }

    /// The first `units_max` units of `dwarf`; of several with one id the first.
    fn part(
        &mut self,
        dwarf: &Dwarf<Slice<'a>>,
        part: usize,
        units_max: usize,
    ) -> Result<(), SymbolError> {
        let mut units = dwarf.units();
        for _ in 0..units_max {
            let Some(header) = units.next().map_err(damaged)? else { break };
            if let Some(DebugInfoOffset(start)) = header.debug_info_offset()
                && let Some(id) = self.id_of(dwarf, header)?
            {
                self.index.units.entry(id).or_insert(UnitPlace {
                    part,
                    start,
                    bytes: header.length_including_self(),
                });
            }
        }
        Ok(())
    }

    /// The id is in the header since DWARF 5, and was an attribute before.
    fn id_of(
        &mut self,
        dwarf: &Dwarf<Slice<'a>>,
        header: UnitHeader<Slice<'a>>,
    ) -> Result<Option<u64>, SymbolError> {
        match header.type_() {
            UnitType::SplitCompilation(DwoId(id)) => Ok(Some(id)),
            UnitType::Compilation => {
                let abbreviations = self.abbreviations(dwarf, header)?;
                let mut entries = header.entries(&abbreviations);
                entries.next_dfs().map_err(damaged)?;
                let Some(root) = entries.current() else { return Ok(None) };
                Ok(root.attrs().iter().find_map(|attribute| {
                    match (attribute.name(), attribute.value()) {
                        (constants::DW_AT_GNU_dwo_id, AttributeValue::DwoId(DwoId(id))) => Some(id),
                        _ => None,
                    }
                }))
            }
            _ => Ok(None),
        }
    }

    fn abbreviations(
        &mut self,
        dwarf: &Dwarf<Slice<'a>>,
        header: UnitHeader<Slice<'a>>,
    ) -> Result<Arc<Abbreviations>, SymbolError> {
        let mut from = *dwarf.debug_abbrev.reader();
        from.skip(header.debug_abbrev_offset().0).map_err(damaged)?;
        if let Some((last, abbreviations)) = &self.last
            && last.slice().as_ptr_range() == from.slice().as_ptr_range()
        {
            return Ok(abbreviations.clone());
        }
        // Their length is known only after reading; this much is allowed.
        self.left_bytes = self.left_bytes.checked_sub(from.len()).ok_or_else(|| {
            SymbolError::Dwarf(format!("the abbreviations of its units of split DWARF are more than {ABBREVIATIONS_MAX_BYTES} bytes"))
        })?;
        let abbreviations = Arc::new(header.abbreviations(&dwarf.debug_abbrev).map_err(damaged)?);
        self.last = Some((from, abbreviations.clone()));
        Ok(abbreviations)
    }
}

/// The units `ids` in `file` with skeletons in `parent`: all sections, with no other unit. A
/// problem with one unit ends that unit with an error.
pub(crate) fn units<'a>(
    file: &'a Image,
    ids: &[u64],
    parent: &Dwarf<Slice<'a>>,
) -> Result<Vec<(u64, Dwarf<Slice<'a>>)>, SymbolError> {
    let index = file.split_index();
    let (package, (sections, parts)) = (file.package()?, file.split_dwarf()?);
    let mut found = Vec::new();
    let mut bounds = Bounds::new(sections.debug_abbrev.reader().len());
    for id in ids {
        let Some(place) = index.find(*id)? else { continue };
        let mut dwarf = if index.is_package {
            package.cu_sections(place.part as u32, parent).map_err(damaged)?
        } else {
            let mut dwarf = sections.borrow(|section| *section);
            dwarf.make_dwo(parent);
            dwarf.debug_info = DebugInfo::from(parts[place.part]);
            dwarf
        };
        let mut unit = *dwarf.debug_info.reader();
        unit.skip(place.start).and_then(|()| unit.truncate(place.bytes)).map_err(damaged)?;
        dwarf.debug_info = DebugInfo::from(unit);
        bounds.check(&dwarf)?;
        found.push((*id, dwarf));
    }
    Ok(found)
}

fn damaged(error: gimli::Error) -> SymbolError {
    SymbolError::Dwarf(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of only these sections.
    fn elf(sections: &[(&str, &[u8])]) -> Vec<u8> {
        const HEADER: usize = 64;
        let mut names = vec![0];
        let mut bytes = vec![0; HEADER];
        let mut headers = vec![0; 64];
        let named: Vec<(&str, &[u8])> =
            sections.iter().copied().chain([(".shstrtab", &[][..])]).collect();
        for (name, content) in &named {
            let (name_at, start) = (names.len() as u32, bytes.len() as u64);
            names.extend(name.bytes().chain([0]));
            let is_names = *name == ".shstrtab";
            bytes.extend(if is_names { &names } else { *content });
            let length = bytes.len() as u64 - start;
            headers.extend(
                [name_at, if is_names { 3 } else { 1 }]
                    .iter()
                    .flat_map(|field| field.to_le_bytes()),
            );
            headers.extend(
                [0, 0, start, length, 0, 1, 0].iter().flat_map(|field: &u64| field.to_le_bytes()),
            );
        }
        let at = bytes.len() as u64;
        bytes.extend(headers);
        bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0");
        bytes[20] = 1;
        bytes[0x28..0x30].copy_from_slice(&at.to_le_bytes());
        let numbers = [64, 0, 0, 64, named.len() as u16 + 1, named.len() as u16];
        bytes[0x34..0x40].copy_from_slice(
            &numbers.iter().flat_map(|number: &u16| number.to_le_bytes()).collect::<Vec<u8>>(),
        );
        bytes
    }

    /// A unit of DWARF 4 or 5 with id `id` and abbreviations at `abbreviations`.
    fn unit(version: u16, id: u64, abbreviations: u32) -> Vec<u8> {
        let mut unit = version.to_le_bytes().to_vec();
        if version == 5 {
            unit.extend([5, 8]);
        }
        unit.extend(abbreviations.to_le_bytes());
        if version == 4 {
            unit.extend([8, 1]);
        }
        unit.extend(id.to_le_bytes());
        if version == 5 {
            unit.push(1);
        }
        [(unit.len() as u32).to_le_bytes().to_vec(), unit].concat()
    }

    /// A compile unit without children, with an id (form 0x07, eight bytes) or with nothing.
    const WITH_ID: &[u8] = &[1, 0x11, 0, 0xb1, 0x42, 0x07, 0, 0, 0];
    const WITHOUT: &[u8] = &[1, 0x11, 0, 0, 0, 0];

    fn dwo(version: u16, ids: std::ops::Range<u64>, step: u32, abbreviations: &[u8]) -> Image {
        let units: Vec<u8> = ids.flat_map(|id| unit(version, id, id as u32 * step)).collect();
        Image::parse(elf(&[(".debug_info.dwo", &units), (".debug_abbrev.dwo", abbreviations)]))
            .unwrap()
    }

    /// A search for each would look at 5,000,000,000 units.
    #[test]
    fn many_units_are_found_in_a_file_of_many() {
        const COUNT: u64 = 100_000;
        for (version, abbreviations) in [(4, WITH_ID), (5, WITHOUT)] {
            let file = dwo(version, 0..COUNT, 0, abbreviations);
            assert!((0..COUNT).all(|id| file.holds_split_unit(id).unwrap()), "version {version}");
            assert!(!file.holds_split_unit(COUNT).unwrap() && !file.is_split_package());
            let parent = Dwarf::default();
            let all: Vec<u64> = (0..COUNT).collect();
            let found = units(&file, &all, &parent).unwrap();
            let alone = |id: usize| found[id].1.debug_info.reader().slice().to_vec();
            assert_eq!((found.len(), alone(77)), (COUNT as usize, unit(version, 77, 0)));
        }
    }

    #[test]
    fn abbreviations_of_each_units_own_are_read_up_to_a_bound() {
        // Each begins nine bytes behind the one before and could go on to the end: 8 GB in all.
        let mut abbreviations = WITH_ID.repeat(1 << 17);
        abbreviations.truncate(1 << 20);
        let file = dwo(4, 0..8000, WITH_ID.len() as u32, &abbreviations);
        assert!(file.holds_split_unit(0).unwrap(), "what was read before the bound is known");
        let error = file.holds_split_unit(7999).unwrap_err().to_string();
        assert!(error.contains("abbreviations of its units"), "{error}");
    }

    #[test]
    fn damage_costs_what_is_behind_it() {
        let mut units: Vec<u8> = [unit(5, 1, 0), unit(5, 2, 0)].concat();
        units.extend([0xff; 3]);
        let file =
            Image::parse(elf(&[(".debug_info.dwo", &units), (".debug_abbrev.dwo", WITHOUT)]))
                .unwrap();
        assert!(file.holds_split_unit(2).unwrap());
        assert!(matches!(file.holds_split_unit(3), Err(SymbolError::Dwarf(_))));
    }
}
