//! Puts the preload object where every process of the recording can load it.
//!
//! The object must survive heaplab: a target may exec long after heaplab was killed, and the
//! dynamic linker complains on the target's standard error about a missing object. So the object is
//! a file in a cache, named by its content. It is removed only when no process of this pid
//! namespace can want it any more (`preload/stale.rs`). Its path must contain no character with a
//! meaning in `LD_PRELOAD` (space, colon, dollar), and its file system must allow execution. The
//! spool is the last choice.
//!
//! The target may start programs that cannot load the object: musl's dynamic linker would end them
//! at a symbol that only glibc has, a 32-bit one complains about the wrong class. So `LD_PRELOAD`
//! names it as `FOLDER/$PLATFORM/NAME`. glibc's linker inserts the platform word of the kernel
//! (AT_PLATFORM) or, on x86-64 before 2.37, of its own look at the processor. The folder has a link
//! for each such word: for 64-bit words to the recorder, for 32-bit x86 words to an empty object
//! (`preload/empty32.rs`). musl's linker expands nothing, finds no such file, and goes on without a
//! word. A shell that expands the value once too often makes `FOLDER//NAME`, which is the recorder
//! itself. Source: ld.so(8), "Dynamic string tokens"; glibc's `sysdeps/x86/cpu-features.c`; the
//! kernel's `ELF_PLATFORM` and `COMPAT_ELF_PLATFORM`. Not covered: 32-bit ARM programs on aarch64;
//! their linker reports a missing file.

mod empty32;
mod stale;

use crate::error::RecordError;
use heaplab_preload::{NODE_ADDON, PRELOAD};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Start of every copy's file name; `/proc/PID/maps` is searched for it.
pub const NAME_PREFIX: &str = "heaplab-preload-";
/// Start of each copy's folder name. It does not contain [`NAME_PREFIX`]: the empty object in the
/// folder is no recorder.
const FOLDER_PREFIX: &str = "recorder-";
/// Name of the addon in its own folder.
const ADDON_NAME: &str = "heaplab.node";
/// Name of the empty object in that folder.
const EMPTY_NAME: &str = "empty-32-bit.so";
/// Values of `$PLATFORM` in programs that can load the recorder.
const PLATFORMS: &[&str] =
    if cfg!(target_arch = "aarch64") { &["aarch64"] } else { &["x86_64", "haswell", "xeon_phi"] };
/// Its values in 32-bit programs.
const PLATFORMS_32: &[&str] =
    if cfg!(target_arch = "aarch64") { &[] } else { &["i386", "i486", "i586", "i686"] };

/// Returns the path of a copy of the preload object, as `LD_PRELOAD` should name it.
pub fn place(spool: &Path) -> Result<PathBuf, RecordError> {
    let hash = crc32fast::hash(&[PRELOAD, &empty32::object()].concat());
    let (inside, name) =
        (format!("{FOLDER_PREFIX}{hash:08x}"), format!("{NAME_PREFIX}{hash:08x}.so"));
    let folder = in_a_cache(spool, |folder| copy_in(folder, &inside, &name))?;
    // If the kernel gives no word or another one, 64-bit programs would miss it; then its plain
    // path names it.
    let expands =
        platform().is_some_and(|word| PLATFORMS.iter().any(|known| known.as_bytes() == word));
    Ok(if expands { folder.join("$PLATFORM").join(name) } else { folder.join(name) })
}

/// Returns the path of a copy of the addon for Node, without characters that have a meaning in
/// `NODE_OPTIONS`.
pub fn place_addon(spool: &Path) -> Result<PathBuf, RecordError> {
    let inside = format!("{FOLDER_PREFIX}node-{:08x}", crc32fast::hash(NODE_ADDON));
    let folder = in_a_cache(spool, |folder| {
        let _locked = prepare(folder, &inside, SystemTime::now())?;
        let copies = folder.join(&inside);
        make_folder(&copies)?;
        write_whole(&copies.join(ADDON_NAME), NODE_ADDON)?;
        touch(&copies);
        Some(copies)
    })?;
    Ok(folder.join(ADDON_NAME))
}

/// Result of `place` for the first suitable folder.
fn in_a_cache(
    spool: &Path,
    place: impl Fn(&Path) -> Option<PathBuf>,
) -> Result<PathBuf, RecordError> {
    let is_plain = |folder: &PathBuf| {
        !folder.as_os_str().as_bytes().iter().any(|byte| b" :$\t\n\"\\".contains(byte))
    };
    candidates(spool).into_iter().filter(is_plain).find_map(|folder| place(&folder)).ok_or_else(|| RecordError::Io {
        what: "no folder could take the recorder (it needs one that allows execution, without spaces, colons, dollars or quotes in its path), not even",
        path: spool.to_owned(),
        source: std::io::ErrorKind::PermissionDenied.into(),
    })
}

/// The kernel's platform word of this machine, as given to every program.
fn platform() -> Option<Vec<u8>> {
    // SAFETY: getauxval has no preconditions.
    let word = unsafe { libc::getauxval(libc::AT_PLATFORM) } as *const std::ffi::c_char;
    // SAFETY: a non-null AT_PLATFORM is the address of a zero-terminated string that the kernel put
    // above the stack and that stays while the process runs.
    (!word.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(word) }.to_bytes().to_vec())
}

fn candidates(spool: &Path) -> Vec<PathBuf> {
    let user = rustix::process::geteuid();
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let mut folders = Vec::new();
    if user.is_root() {
        // Processes that give up root's rights must still reach it; under /root they cannot.
        folders.push(PathBuf::from("/var/cache/heaplab"));
    } else if let Some(cache) =
        absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
    {
        folders.push(cache.join("heaplab"));
    }
    folders.push(std::env::temp_dir().join(format!("heaplab-{}", user.as_raw())));
    folders.push(spool.to_owned());
    folders
}

/// Makes `folder` if missing and removes old copies from it except `inside`; `None` if the folder
/// is unsuitable. Keep the result until the copy exists: it holds the lock, if the file system has
/// locks.
fn prepare(folder: &Path, inside: &str, now: SystemTime) -> Option<File> {
    let _ = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    // In a shared place another user may have made the folder first: objects that others can write
    // must not be loaded.
    if !is_ours(folder) {
        return None;
    }
    let no_exec =
        rustix::fs::statvfs(folder).ok()?.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
    if no_exec {
        return None;
    }
    let place = File::open(folder).ok()?;
    // Without locks nothing is removed.
    if rustix::fs::flock(&place, rustix::fs::FlockOperation::LockExclusive).is_ok() {
        stale::remove(folder, inside, now);
    }
    Some(place)
}

/// Marks the copy as wanted now.
fn touch(copies: &Path) {
    let _ = File::open(copies).and_then(|file| file.set_modified(SystemTime::now()));
}

/// The folder `inside` of `folder` with the copy `name`, made if missing; `None` if the folder is
/// unsuitable.
fn copy_in(folder: &Path, inside: &str, name: &str) -> Option<PathBuf> {
    let _locked = prepare(folder, inside, SystemTime::now())?;
    let copies = folder.join(inside);
    make_folder(&copies)?;
    write_whole(&copies.join(name), PRELOAD)?;
    write_whole(&copies.join(EMPTY_NAME), &empty32::object())?;
    let words = PLATFORMS
        .iter()
        .map(|word| (word, name))
        .chain(PLATFORMS_32.iter().map(|word| (word, EMPTY_NAME)));
    for (word, meant) in words {
        let holder = copies.join(word);
        make_folder(&holder)?;
        link(&holder.join(name), &Path::new("..").join(meant))?;
    }
    touch(&copies);
    Some(copies)
}

/// Whether only this user may write to the folder.
fn is_ours(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|metadata| {
        metadata.is_dir()
            && metadata.uid() == rustix::process::geteuid().as_raw()
            && metadata.mode() & 0o022 == 0
    })
}

/// Makes a folder that others can read, whatever the umask, if missing.
fn make_folder(folder: &Path) -> Option<()> {
    if DirBuilder::new().mode(0o755).create(folder).is_ok() {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).ok()?;
    }
    is_ours(folder).then_some(())
}

/// Makes `path` a file of these bytes if it is not; never leaves a partial file.
fn write_whole(path: &Path, bytes: &[u8]) -> Option<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Some(());
    }
    let temporary = path.with_extension(std::process::id().to_string());
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o755)
        .open(&temporary)
        .ok()?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.set_permissions(fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.ok()
}

/// Makes `path` a link to `meant`, if it is not.
fn link(path: &Path, meant: &Path) -> Option<()> {
    let is_there = || fs::read_link(path).is_ok_and(|there| there == meant);
    if is_there() {
        return Some(());
    }
    let temporary = path.with_extension(std::process::id().to_string());
    let _ = fs::remove_file(&temporary);
    let linked =
        std::os::unix::fs::symlink(meant, &temporary).and_then(|()| fs::rename(&temporary, path));
    if linked.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    linked.ok()
}

/// The value of `LD_PRELOAD` that loads `object` before the `existing` objects.
pub fn variable(object: &Path, existing: Option<&OsStr>) -> OsString {
    let mut value = object.as_os_str().to_owned();
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        value.push(":");
        value.push(existing);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_preload_stays() {
        assert_eq!(variable(Path::new("/a.so"), None), "/a.so");
        assert_eq!(variable(Path::new("/a.so"), Some(OsStr::new(""))), "/a.so");
        assert_eq!(
            variable(Path::new("/a.so"), Some(OsStr::new("/b.so /c.so"))),
            "/a.so:/b.so /c.so"
        );
    }

    #[test]
    fn the_copy_is_whole_and_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let copies = copy_in(&cache, "recorder-x", "x.so").unwrap();
        let whole = || {
            for word in PLATFORMS.iter().chain(&["."]) {
                assert_eq!(fs::read(copies.join(word).join("x.so")).unwrap(), PRELOAD, "{word}");
            }
            for word in PLATFORMS_32 {
                assert_eq!(
                    fs::read(copies.join(word).join("x.so")).unwrap(),
                    empty32::object(),
                    "{word}"
                );
            }
        };
        whole();
        fs::write(copies.join("x.so"), b"damaged").unwrap();
        fs::write(copies.join(EMPTY_NAME), b"").unwrap();
        let linked = copies.join(PLATFORMS[0]).join("x.so");
        fs::remove_file(&linked).unwrap();
        fs::write(&linked, b"no link").unwrap();
        assert_eq!(copy_in(&cache, "recorder-x", "x.so"), Some(copies.clone()));
        whole();
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(copy_in(&cache, "recorder-x", "x.so"), None, "others may write there");
    }

    #[test]
    fn the_platform_of_this_machine_is_known() {
        let Some(word) = platform() else {
            eprintln!("skipped: this kernel does not say one");
            return;
        };
        assert!(PLATFORMS.iter().any(|known| known.as_bytes() == word), "{}", word.escape_ascii());
    }
}
