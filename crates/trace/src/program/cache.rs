//! A bundle's program beside its tables: compiled only once.
//!
//! The file is `NAME.heaplab/replay-all.program` or `replay-process-N.program`. Its header holds a
//! key over its sources; a program with another key, of another version, or damaged is compiled
//! again. If the bundle is not writable, the program goes to a folder for temporary files under a
//! name with the key.

use super::compiler::{Standing, compile, compile_and_standing};
use super::file::{Facts, Program, VERSION};
use super::young::{AtBirth, DiedYoung};
use crate::bundle::{Bundle, EVENTS_FILE, META_FILE, Selection};
use crate::regular;
use crate::source::First;
use crate::{NOTICED_AT_COLLECTION, TraceError};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// The parts of a bundle that a program depends on.
const COMPILED_FROM: [&str; 4] = [EVENTS_FILE, "arenas.parquet", "marks.parquet", META_FILE];

/// The replay program of `bundle`, compiled if none matches.
///
/// # Errors
/// The recording is a profile, its events cannot be read, or there is no room for the program.
pub fn cached(bundle: &Bundle, selection: Selection) -> Result<Program, TraceError> {
    has_every_object(bundle)?;
    let name = match selection.process {
        Some(process) => format!("replay-process-{process}.program"),
        None => String::from("replay-all.program"),
    };
    let key = key(bundle.path(), selection)?;
    let beside = bundle.path().join(&name);
    let elsewhere = std::env::temp_dir().join(format!("heaplab-{key:016x}-{name}"));
    for path in [&beside, &elsewhere] {
        if let Some(program) = Program::open_for(path, key) {
            return Ok(program);
        }
    }
    match write(bundle, selection, key, &beside) {
        Err(TraceError::Io { source, .. }) if is_read_only(&source) => {
            write(bundle, selection, key, &elsewhere)
        }
        other => other,
    }
}

/// The program of a bundle's first `rows` rows (of `selection`), and the live objects at its end.
/// The program is not kept: its temporary file has no name when this returns. Objects live until
/// the rows of their deaths, as in a report.
///
/// # Errors
/// The events cannot be read, or the program does not fit on the disk.
pub fn until(
    bundle: &Bundle,
    selection: Selection,
    rows: u64,
) -> Result<(Program, Standing), TraceError> {
    unkept(bundle, selection, rows, &[])
}

/// The whole program of one process, and for each of these times (ns, rising) the word before which
/// everything has happened by then. Not kept either.
///
/// # Errors
/// As for [`until`].
pub fn with_moments(
    bundle: &Bundle,
    process: u32,
    moments_ns: &[u64],
) -> Result<(Program, Vec<usize>), TraceError> {
    let selection = Selection { process: Some(process) };
    let (program, standing) = unkept(bundle, selection, u64::MAX, moments_ns)?;
    Ok((program, standing.moments))
}

fn unkept(
    bundle: &Bundle,
    selection: Selection,
    rows: u64,
    moments_ns: &[u64],
) -> Result<(Program, Standing), TraceError> {
    has_every_object(bundle)?;
    let name = format!("heaplab-until-{rows}-{}.program", std::process::id());
    let unfinished = Unfinished(std::env::temp_dir().join(name));
    let mut file =
        File::create_new(&unfinished.0).map_err(TraceError::io(&unfinished.0, "create"))?;
    let mut events = First { source: bundle.events(selection)?, rows };
    let (_, standing) = compile_and_standing(
        &mut events,
        bundle.tables(),
        facts(bundle, selection),
        0,
        bundle.path(),
        moments_ns,
        &mut file,
    )?;
    Ok((Program::open(&unfinished.0)?, standing))
}

fn has_every_object(bundle: &Bundle) -> Result<(), TraceError> {
    match bundle.meta().sampled_every_words {
        0 => Ok(()),
        every_words => Err(TraceError::Profile { path: bundle.path().to_owned(), every_words }),
    }
}

fn facts(bundle: &Bundle, selection: Selection) -> Facts {
    let meta = bundle.meta();
    Facts {
        program: meta.program.clone(),
        allocator: meta.allocator.clone(),
        cut: meta.cut.clone(),
        process: selection.process,
        death_rule: meta.death_rule.clone(),
        granularity_bytes: meta.granularity_bytes,
        ..Facts::default()
    }
}

fn is_read_only(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull)
}

/// Compiles under a name of this process's own and renames: the program appears whole or not at
/// all.
fn write(
    bundle: &Bundle,
    selection: Selection,
    key: u64,
    path: &Path,
) -> Result<Program, TraceError> {
    let unfinished = Unfinished(path.with_extension(format!("unfinished-{}", std::process::id())));
    let mut file =
        File::create_new(&unfinished.0).map_err(TraceError::io(&unfinished.0, "create"))?;
    let young = if bundle.meta().death_rule == NOTICED_AT_COLLECTION {
        DiedYoung::read(&mut bundle.events(Selection::default())?)?
    } else {
        DiedYoung::default()
    };
    compile(
        &mut AtBirth { source: bundle.events(selection)?, young: &young },
        bundle.tables(),
        facts(bundle, selection),
        key,
        bundle.path(),
        &mut file,
    )?;
    fs::rename(&unfinished.0, path)
        .map_err(TraceError::io(path, "give the replay program its name"))?;
    Program::open(path)
}

/// A file that is removed unless it was renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After a rename the file is gone; a failed removal has no remedy.
        let _ = fs::remove_file(&self.0);
    }
}

/// Raised when the same recording is compiled into another program: 1, purges of a metaspace; 2,
/// objects that died young.
const COMPILED_AS: u32 = 2;

fn key(folder: &Path, selection: Selection) -> Result<u64, TraceError> {
    let mut hash = Xxh3::new();
    hash.update(&VERSION.to_le_bytes());
    hash.update(&COMPILED_AS.to_le_bytes());
    hash.update(format!("{:?}", selection.process).as_bytes());
    let mut buffer = vec![0; 1 << 18];
    for name in COMPILED_FROM {
        let path = folder.join(name);
        let mut file = match regular::open(&path, "open") {
            Ok(file) => file,
            Err(TraceError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                continue;
            }
            Err(error) => return Err(error),
        };
        hash.update(name.as_bytes());
        loop {
            let read = file.read(&mut buffer).map_err(TraceError::io(&path, "read"))?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
        }
    }
    Ok(hash.digest())
}
