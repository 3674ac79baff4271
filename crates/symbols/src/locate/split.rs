//! Finds the units of split DWARF.
//!
//! The places and their order are gdb's (`open_dwp_file`, `open_dwo_file`). The package, in this
//! order:
//! - beside the module, as its name with `.dwp`; where there is a separate debug file, beside that,
//!   under the module's name;
//! - the same after symbolic links, where a debug file has its own name with `.dwp`;
//! - by that name in each debug directory.
//!
//! A `.dwo` file, named relative to the folder in which the compiler ran:
//! - in that folder (a relative one: below the current folder and below each debug directory);
//! - in the current folder and in each debug directory.
//!
//! Two deviations, which only find more. First, gdb looks for no `.dwo` file if a package exists,
//! even an old one that lacks the unit; this code does. Second, a program that was moved with its
//! files is served as by lldb, which also looks beside the module, and for the bare file name there
//! and in each debug directory. A wrong file is never taken, because the unit's id decides.

use super::{Options, open};
use crate::{Image, SplitUnit, SymbolError};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Most files opened for one module; each is a mapping, and Linux allows a process 65,530.
const FILES_MAX: usize = 16_384;
/// Most unusable files named in notes.
const NOTES_MAX: usize = 4;

/// The files with the units of a module.
#[derive(Debug, Default)]
pub struct LocatedSplit {
    /// The files read, a package first; some may hold no unit.
    pub files: Vec<Image>,
    /// The package, if one was used.
    pub package: Option<PathBuf>,
    /// Units found, with their file's index.
    pub units: Vec<(u64, usize)>,
    /// Files not found, or found and not used, a sentence each.
    pub notes: Vec<String>,
}

/// Finds the files with `units` of the module at `module`; `debug` is its separate debug file, if
/// any.
pub fn locate_split(
    units: &[SplitUnit],
    module: &Path,
    debug: Option<&Path>,
    options: &Options,
) -> LocatedSplit {
    let mut found = LocatedSplit::default();
    if units.is_empty() {
        return found;
    }
    let mut missing = found.search_package(units, package_candidates(module, debug, options));
    let mut opened = BTreeMap::new();
    missing.retain(|unit| {
        !unit_candidates(unit, module, options)
            .any(|candidate| found.search_file(unit.id, candidate, &mut opened))
    });
    if let Some(first) = missing.first() {
        found.notes.push(format!(
            "split debug information (.dwo) of {} of {} units is missing, the first {} compiled in {} (id {:#018x}): their inlined functions have no names",
            missing.len(),
            units.len(),
            String::from_utf8_lossy(&first.file),
            String::from_utf8_lossy(&first.folder),
            first.id,
        ));
    }
    found
}

impl LocatedSplit {
    /// Takes the first package found; returns the units missing from it.
    fn search_package<'a>(
        &mut self,
        units: &'a [SplitUnit],
        candidates: impl Iterator<Item = PathBuf>,
    ) -> Vec<&'a SplitUnit> {
        for candidate in candidates {
            let Some(Some(image)) = self.open(&candidate) else { continue };
            if !image.is_split_package() {
                self.note(format!(
                    "{} is no package of split debug information",
                    candidate.display()
                ));
                continue;
            }
            let mut missing = Vec::new();
            for unit in units {
                match image.holds_split_unit(unit.id) {
                    Ok(true) => self.units.push((unit.id, self.files.len())),
                    Ok(false) => missing.push(unit),
                    Err(error) => {
                        missing.push(unit);
                        self.note(format!("{}: {error}", candidate.display()));
                    }
                }
            }
            if missing.len() == units.len() {
                self.note(format!("{} holds no unit of this build", candidate.display()));
                continue;
            }
            self.files.push(image);
            self.package = Some(candidate);
            return missing;
        }
        units.iter().collect()
    }

    /// Whether the unit `id` is in the file at `candidate`. `opened` maps paths to indices of
    /// opened files, whatever their content; unreadable files have none. Many units that name one
    /// file read it once.
    fn search_file(
        &mut self,
        id: u64,
        candidate: PathBuf,
        opened: &mut BTreeMap<PathBuf, Option<usize>>,
    ) -> bool {
        let number = match opened.get(&candidate) {
            Some(number) => *number,
            None if self.files.len() >= FILES_MAX => {
                self.note(format!(
                    "no more than {FILES_MAX} files of split debug information are opened"
                ));
                return false;
            }
            None => {
                let Some(image) = self.open(&candidate) else { return false };
                let number = image.is_some().then_some(self.files.len());
                self.files.extend(image);
                opened.insert(candidate.clone(), number);
                number
            }
        };
        let Some(number) = number else { return false };
        match self.files[number].holds_split_unit(id) {
            Ok(true) => {
                self.units.push((id, number));
                return true;
            }
            Ok(false) => {
                self.note(format!("{} holds another build of its unit", candidate.display()))
            }
            Err(error) => self.note(format!("{}: {error}", candidate.display())),
        }
        false
    }

    /// `None`: no such file; `Some(None)`: unreadable, and noted.
    fn open(&mut self, path: &Path) -> Option<Option<Image>> {
        match open(path) {
            Ok(image) => Some(Some(image)),
            Err(SymbolError::Io { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                None
            }
            Err(error) => {
                self.note(format!("{}: {error}", path.display()));
                Some(None)
            }
        }
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Possible places of the package of `module`, the best first.
fn package_candidates(
    module: &Path,
    debug: Option<&Path>,
    options: &Options,
) -> impl Iterator<Item = PathBuf> {
    let package = |path: &Path| {
        let mut name = OsString::from(path);
        name.push(".dwp");
        PathBuf::from(name)
    };
    let beside = debug.and_then(|debug| Some(debug.parent()?.join(module.file_name()?)));
    let real = debug.unwrap_or(module).canonicalize().ok();
    let mut places: Vec<PathBuf> =
        beside.iter().map(|path| package(path)).chain([package(module)]).collect();
    places.extend(real.as_deref().map(package));
    let names: Vec<OsString> =
        places.iter().filter_map(|place| place.file_name().map(OsStr::to_owned)).collect();
    places.extend(
        names.iter().flat_map(|name| options.debug_dirs.iter().map(move |dir| dir.join(name))),
    );
    without_repeats(places)
}

/// Possible places of the `.dwo` file of `unit`, the best first.
fn unit_candidates(
    unit: &SplitUnit,
    module: &Path,
    options: &Options,
) -> impl Iterator<Item = PathBuf> {
    let (file, folder) =
        (Path::new(OsStr::from_bytes(&unit.file)), Path::new(OsStr::from_bytes(&unit.folder)));
    let beside = module.parent().unwrap_or(Path::new("/"));
    let dirs = || options.debug_dirs.iter().map(PathBuf::as_path);
    let mut places = Vec::new();
    let Some(bare) =
        file.file_name().filter(|_| !unit.file.contains(&0) && !unit.folder.contains(&0))
    else {
        return without_repeats(places);
    };
    if file.is_absolute() {
        places.push(file.to_path_buf());
    } else {
        let in_folder = folder.join(file);
        if folder.is_relative() {
            // A relative path opens in the current folder.
            places.push(in_folder.clone());
            places.extend(dirs().map(|dir| dir.join(&in_folder)));
        } else {
            places.push(in_folder.clone());
        }
        places.push(file.to_path_buf());
        places.extend(dirs().map(|dir| dir.join(file)));
        places.extend(
            [in_folder.as_path(), file]
                .into_iter()
                .filter(|path| path.is_relative())
                .map(|path| beside.join(path)),
        );
    }
    places.push(beside.join(bare));
    places.extend(dirs().map(|dir| dir.join(bare)));
    without_repeats(places)
}

fn without_repeats(places: Vec<PathBuf>) -> impl Iterator<Item = PathBuf> {
    let mut seen = std::collections::BTreeSet::new();
    places.into_iter().filter(move |place| seen.insert(place.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options { debug_dirs: vec!["/d".into()] }
    }

    fn files(file: &str, folder: &str) -> Vec<String> {
        let unit = SplitUnit { id: 1, file: file.into(), folder: folder.into() };
        unit_candidates(&unit, Path::new("/bin/app"), &options())
            .map(|place| place.display().to_string())
            .collect()
    }

    #[test]
    fn dwo_files_are_looked_for_as_by_gdb_and_then_as_by_lldb() {
        assert_eq!(
            files("o/a.dwo", "/src"),
            ["/src/o/a.dwo", "o/a.dwo", "/d/o/a.dwo", "/bin/o/a.dwo", "/bin/a.dwo", "/d/a.dwo"]
        );
        assert_eq!(
            files("a.dwo", "out"),
            ["out/a.dwo", "/d/out/a.dwo", "a.dwo", "/d/a.dwo", "/bin/out/a.dwo", "/bin/a.dwo"]
        );
        assert_eq!(files("/o/a.dwo", "/src"), ["/o/a.dwo", "/bin/a.dwo", "/d/a.dwo"]);
        assert_eq!(files("", "/src"), Vec::<String>::new());
        assert_eq!(files("a\0.dwo", "/src"), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_many_units_name_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let (no_elf, program) =
            (folder.path().join("no-elf.dwo"), std::env::current_exe().unwrap());
        std::fs::write(&no_elf, "no ELF file").unwrap();
        let unit = |id, file: &Path| SplitUnit {
            id,
            file: file.as_os_str().as_bytes().into(),
            folder: Vec::new(),
        };
        let units: Vec<SplitUnit> =
            (0..9).map(|id| unit(id, if id % 2 == 0 { &program } else { &no_elf })).collect();
        let nothing = Options { debug_dirs: Vec::new() };
        let found = locate_split(&units, &folder.path().join("app"), None, &nothing);
        assert_eq!(
            (found.files.len(), found.units.len(), found.notes.len()),
            (1, 0, 3),
            "{:?}",
            found.notes
        );
        assert!(found.notes[2].contains("of 9 of 9 units is missing"), "{:?}", found.notes);
    }

    #[test]
    fn packages_are_looked_for_beside_the_module_and_its_debug_file() {
        let places = |debug| {
            package_candidates(Path::new("/bin/app"), debug, &options()).collect::<Vec<_>>()
        };
        assert_eq!(places(None), [Path::new("/bin/app.dwp"), Path::new("/d/app.dwp")]);
        assert_eq!(
            places(Some(Path::new("/x/app.debug"))),
            [Path::new("/x/app.dwp"), Path::new("/bin/app.dwp"), Path::new("/d/app.dwp")]
        );
    }
}
