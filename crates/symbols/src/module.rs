//! All addresses of one module at once: find its files, check that they are the recorded ones,
//! resolve, forget.

use crate::{
    BuildId, Options, Place, Resolver, SymbolError,
    locate::{self, Located, LocatedSplit},
};
use std::{
    cell::OnceCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The result for one module.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ModuleReport {
    /// The module's file, if a matching one was found.
    pub file: Option<PathBuf>,
    /// The separate debug file used.
    pub debug_file: Option<PathBuf>,
    /// The file used beside it that shares debug information with it (made by dwz).
    pub shared_debug_file: Option<PathBuf>,
    /// Whether symbols packed into the module itself (`.gnu_debugdata`) were used.
    pub has_packed_symbols: bool,
    /// The package of split DWARF (`.dwp`) used.
    pub split_package: Option<PathBuf>,
    /// Number of other files of split DWARF (`.dwo`) used.
    pub split_files: usize,
    /// Whether debug information was found, not only symbol tables.
    pub has_debug_information: bool,
    /// Addresses with at least one function name.
    pub functions: usize,
    /// Addresses with a source line.
    pub lines: usize,
    /// Functions found inlined, over all addresses.
    pub inlined: usize,
    /// Obstacles, a sentence each; empty: none.
    pub notes: Vec<String>,
}

/// Resolves `addresses` of the module recorded as `path` with `build_id` (hexadecimal; empty: none
/// recorded). Calls `each` with the index of an address and its [`Place`]s, innermost first (empty:
/// no function contains the address).
///
/// `addresses` count as in the file; for a return address pass one less. A file with another build
/// id than `build_id` is not used, nor is another module's debug file; [`ModuleReport::notes`] says
/// so. If the module itself is missing, its debug file alone is used, found by build id.
pub fn resolve_module(
    path: &Path,
    build_id: &str,
    options: &Options,
    addresses: &[u64],
    mut each: impl FnMut(usize, Vec<Place>),
) -> ModuleReport {
    let mut report = ModuleReport::default();
    let Some((image, file)) = find(path, build_id, options, &mut report.notes) else {
        return report;
    };
    let Located { image, debug, embedded, alternate, notes } =
        locate::locate(image, &file, options);
    report.notes.extend(notes);
    report.file = Some(file);
    report.debug_file = debug.as_ref().map(|(_, path)| path.clone());
    report.shared_debug_file = alternate.as_ref().map(|(_, path)| path.clone());
    report.has_packed_symbols = embedded.is_some();
    let separate = debug.as_ref().map(|(image, _)| image).or(embedded.as_ref());
    // Only the resolver knows which files of split DWARF are wanted, and it borrows them.
    let split_files = OnceCell::new();
    let mut resolver = Resolver::new(&image, separate, alternate.as_ref().map(|(image, _)| image));
    let split = split_files.get_or_init(|| {
        locate::locate_split(
            &resolver.split_units(addresses),
            report.file.as_deref().unwrap_or(path),
            report.debug_file.as_deref(),
            options,
        )
    });
    add_split(&mut resolver, split, &mut report);
    report.has_debug_information = resolver.has_debug_information();
    for (number, address) in addresses.iter().enumerate() {
        let places = resolver.resolve(*address);
        report.functions += usize::from(places.iter().any(|place| place.function.is_some()));
        report.lines += usize::from(places.iter().any(|place| place.line > 0));
        report.inlined += places.len().saturating_sub(1);
        each(number, places);
    }
    report.notes.extend(resolver.problems().iter().map(SymbolError::to_string));
    report
}

/// Gives the resolver the units found in other files.
fn add_split<'a>(resolver: &mut Resolver<'a>, split: &'a LocatedSplit, report: &mut ModuleReport) {
    report.notes.extend(split.notes.iter().cloned());
    report.split_package = split.package.clone();
    let mut used: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (id, file) in &split.units {
        used.entry(*file).or_default().push(*id);
    }
    report.split_files = used.len() - usize::from(split.package.is_some());
    for (file, ids) in used {
        if let Err(error) = resolver.add_split(&ids, &split.files[file]) {
            report.notes.push(error.to_string());
        }
    }
}

/// The module's file, or its debug file, if it has the recorded build id.
fn find(
    path: &Path,
    build_id: &str,
    options: &Options,
    notes: &mut Vec<String>,
) -> Option<(crate::Image, PathBuf)> {
    let wanted = BuildId::from_hex(build_id);
    if wanted.is_none() && !build_id.is_empty() {
        notes.push(format!("the recorded build id {build_id:?} is not hexadecimal"));
        return None;
    }
    match locate::open(path) {
        Ok(image) => match (&wanted, image.build_id()) {
            (Some(wanted), found) if found != Some(wanted) => {
                let found = found.map_or("none".into(), BuildId::to_string);
                notes.push(format!("the file is another build than the recorded one (build id {found}, recorded {wanted})"));
            }
            (None, Some(_)) => {
                notes.push(
                    "no build id was recorded; the current file of the module's name was used"
                        .into(),
                );
                return Some((image, path.into()));
            }
            _ => return Some((image, path.into())),
        },
        Err(SymbolError::Io { source, .. }) => {
            notes.push(format!("the file cannot be read ({source})"))
        }
        Err(error) => notes.push(error.to_string()),
    }
    let wanted = wanted?;
    let (image, file) = locate::debug_file_of(&wanted, options)?;
    notes.push(format!("names come from {} alone", file.display()));
    Some((image, file))
}
