//! Finds the files on this machine that belong to a module.
//!
//! The places and their order are gdb's ("Debugging Information in Separate Files"): by build id
//! below each debug directory, then by `.gnu_debuglink` beside the module, in its `.debug`, and
//! below each debug directory. A file found by build id must have this id; a file found by name
//! must have the module's build id or the link's checksum.
//!
//! - `.gnu_debugdata` (symbols inside the module itself) is opened if the module has no debug
//!   information and no debug file was found.
//! - The file into which dwz moved parts of several debug files (`.gnu_debugaltlink`, `.debug_sup`
//!   of DWARF 5) is searched under the link's name, relative to the real folder of the file with
//!   the link; by build id below each debug directory; and, for a name with `/.dwz/`, by the part
//!   from there on below each debug directory. Everywhere it must have the link's id.
//! - The files of split DWARF: see [`locate_split`].

mod split;

pub use split::{LocatedSplit, locate_split};

use crate::{BuildId, Image, SymbolError};
use std::{
    ffi::OsStr,
    fs::File,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The places to search for files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Folders of debug files, the first searched first. Each may hold `.build-id/xx/yyyy.debug`,
    /// the module's own path, or the debug file itself.
    pub debug_dirs: Vec<PathBuf>,
}

impl Default for Options {
    /// The system's folder, `/usr/lib/debug`.
    fn default() -> Self {
        Options { debug_dirs: vec![PathBuf::from("/usr/lib/debug")] }
    }
}

/// The files of a module.
#[derive(Debug)]
pub struct Located {
    /// The module itself.
    pub image: Image,
    /// Its separate debug file, and the file's path.
    pub debug: Option<(Image, PathBuf)>,
    /// The symbols packed into the module, if no better ones were found.
    pub embedded: Option<Image>,
    /// The file that the debug file shares with others, and its path.
    pub alternate: Option<(Image, PathBuf)>,
    /// Files not found, or found and not used, a sentence each.
    pub notes: Vec<String>,
}

/// Maps the file at `path` and reads its headers.
///
/// # Errors
/// The file is missing, not a regular one, or no readable ELF file.
pub fn open(path: &Path) -> Result<Image, SymbolError> {
    let io = |source| SymbolError::Io { path: path.into(), source };
    // Checked before opening: opening a pipe would wait for its writer.
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_file() {
        return Err(SymbolError::NotAFile(path.into()));
    }
    if metadata.len() == 0 {
        return Err(SymbolError::Elf("the file is empty".into()));
    }
    let file = File::open(path).map_err(io)?;
    // SAFETY: the mapping is private and only read. Its content is untrusted, and every reader
    // checks it. Truncating an installed program in place during reading would raise SIGBUS; this
    // is the accepted risk of mapping files, as in debuggers: installers replace files by renaming.
    let bytes = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
    Image::parse(bytes)
}

/// Finds the debug files of `image`, opened from `path`.
pub fn locate(image: Image, path: &Path, options: &Options) -> Located {
    let mut notes = Vec::new();
    let debug = if image.has_debug_information() {
        None
    } else {
        candidates(&image, path, options).find_map(|candidate| match open(&candidate) {
            Ok(found) if belongs(&found, &image) => Some((found, candidate)),
            Ok(_) => {
                notes.push(format!("{} is the debug file of another build", candidate.display()));
                None
            }
            Err(SymbolError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                None
            }
            Err(error) => {
                notes.push(format!("{}: {error}", candidate.display()));
                None
            }
        })
    };
    let has_better = debug.is_some() || image.has_debug_information();
    let embedded = if has_better { None } else { image.mini_debug_information() };
    let embedded =
        embedded.and_then(|found| found.map_err(|error| notes.push(error.to_string())).ok());
    let (linked, linked_path) =
        debug.as_ref().map_or((&image, path), |(debug, path)| (debug, path.as_path()));
    let alternate = linked
        .alternate_link()
        .and_then(|(name, id)| alternate(name, id, linked_path, options, &mut notes));
    Located { image, debug, embedded, alternate, notes }
}

/// The shared debug file `name` of the build `id` that the file at `linked` refers to.
fn alternate(
    name: &[u8],
    id: &BuildId,
    linked: &Path,
    options: &Options,
    notes: &mut Vec<String>,
) -> Option<(Image, PathBuf)> {
    let known = notes.len();
    for candidate in alternate_candidates(name, id, linked, options) {
        match open(&candidate) {
            Ok(found) if found.is_alternate(id) => {
                notes.truncate(known);
                return Some((found, candidate));
            }
            Ok(_) => notes
                .push(format!("{} is the shared debug file of another build", candidate.display())),
            Err(SymbolError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => notes.push(format!("{}: {error}", candidate.display())),
        }
    }
    notes.push(format!(
        "the shared debug file {} (build id {id}) is missing, with its names",
        String::from_utf8_lossy(name)
    ));
    None
}

/// The debug file of the build `id`, for a missing module.
pub fn debug_file_of(id: &BuildId, options: &Options) -> Option<(Image, PathBuf)> {
    let places = options.debug_dirs.iter().filter_map(|dir| Some(dir.join(by_build_id(id)?)));
    let mut fitting = places.filter_map(|place| {
        Some((open(&place).ok().filter(|image| image.build_id() == Some(id))?, place))
    });
    fitting.next()
}

/// Possible places of the debug file of `image`, the best first.
fn candidates(image: &Image, path: &Path, options: &Options) -> impl Iterator<Item = PathBuf> {
    let mut places = Vec::new();
    if let Some(id) = image.build_id() {
        places.extend(options.debug_dirs.iter().filter_map(|dir| Some(dir.join(by_build_id(id)?))));
    }
    // Symbolic links are followed first: /lib may be /usr/lib, and debug files lie below the real
    // name.
    let real = path.canonicalize().unwrap_or_else(|_| path.into());
    let folder = real.parent().unwrap_or(Path::new("/"));
    let below = folder.strip_prefix("/").unwrap_or(folder);
    if let Some((name, _)) = image.debug_link().filter(|(name, _)| is_plain_name(name)) {
        let name = OsStr::from_bytes(name);
        places.extend([folder.join(name), folder.join(".debug").join(name)]);
        places.extend(
            options.debug_dirs.iter().flat_map(|dir| [dir.join(below).join(name), dir.join(name)]),
        );
    }
    // Without a link (after a bare `objcopy --only-keep-debug`), the customary name.
    if let Some(name) = real.file_name() {
        let mut name = name.to_owned();
        name.push(".debug");
        places.extend(
            options
                .debug_dirs
                .iter()
                .flat_map(|dir| [dir.join(below).join(&name), dir.join(&name)]),
        );
    }
    places.retain(|place| *place != real);
    places.into_iter()
}

fn alternate_candidates(
    name: &[u8],
    id: &BuildId,
    linked: &Path,
    options: &Options,
) -> impl Iterator<Item = PathBuf> {
    let real = linked.canonicalize().unwrap_or_else(|_| linked.into());
    let mut places = vec![real.parent().unwrap_or(Path::new("/")).join(OsStr::from_bytes(name))];
    places.extend(options.debug_dirs.iter().filter_map(|dir| Some(dir.join(by_build_id(id)?))));
    if let Some(below) = below_dwz(name) {
        places.extend(options.debug_dirs.iter().map(|dir| dir.join(".dwz").join(below)));
    }
    places.into_iter()
}

/// The part after `/.dwz/` in the name of a shared debug file, such as
/// `x86_64-linux-gnu/coreutils.debug`; only downwards.
fn below_dwz(name: &[u8]) -> Option<&Path> {
    let at = name.windows(6).position(|window| window == b"/.dwz/")?;
    let below = Path::new(OsStr::from_bytes(&name[at + b"/.dwz/".len()..]));
    let is_downwards =
        below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    (is_downwards && below.file_name().is_some()).then_some(below)
}

/// `.build-id/xx/yyyy.debug`.
fn by_build_id(id: &BuildId) -> Option<PathBuf> {
    let text = id.to_string();
    let (first, rest) = text.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    Some(Path::new(".build-id").join(first).join(format!("{rest}.debug")))
}

/// A link names a file, not a path: a name that leads elsewhere is not followed.
fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

fn belongs(debug: &Image, image: &Image) -> bool {
    match (debug.build_id(), image.build_id()) {
        (Some(found), Some(wanted)) => found == wanted,
        _ => image.debug_link().is_some_and(|(_, checksum)| checksum == debug.checksum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_pipes_are_not_opened() {
        assert!(matches!(open(Path::new("/")), Err(SymbolError::NotAFile(_))));
        assert!(matches!(open(Path::new("/dev/null")), Err(SymbolError::NotAFile(_))));
        assert!(matches!(open(Path::new("/nonexistent")), Err(SymbolError::Io { .. })));
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(open(empty.path()), Err(SymbolError::Elf(_))));
    }

    #[test]
    fn links_with_folders_are_not_followed() {
        assert!(is_plain_name(b"app.debug"));
        for name in [&b""[..], b"..", b"../etc/passwd", b"/etc/passwd", b"a\0b"] {
            assert!(!is_plain_name(name));
        }
    }

    #[test]
    fn shared_debug_files_keep_their_folders_below_dwz() {
        assert_eq!(
            below_dwz(b"/usr/lib/debug/.dwz/x86_64-linux-gnu/a.debug"),
            Some(Path::new("x86_64-linux-gnu/a.debug"))
        );
        assert_eq!(below_dwz(b"../../.dwz/a.debug"), Some(Path::new("a.debug")));
        for name in [&b"a.debug"[..], b"/.dwz/", b"/.dwz/../etc/passwd", b"/.dwz//etc/passwd"] {
            assert_eq!(below_dwz(name), None, "{}", String::from_utf8_lossy(name));
        }
    }

    #[test]
    fn build_ids_lead_to_their_folder() {
        assert_eq!(
            by_build_id(&BuildId::from_hex("abcdef").unwrap()),
            Some(PathBuf::from(".build-id/ab/cdef.debug"))
        );
        assert_eq!(by_build_id(&BuildId::from_hex("ab").unwrap()), None);
    }
}
