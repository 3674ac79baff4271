//! Puts the preload object where every process of the recording can load it.
//!
//! It must survive heaplab (a target may exec long after heaplab was killed, and the dynamic linker complains on the
//! target's standard error about an object that is gone), so that it is a file in a cache, named by its content, and removed
//! only when no process of this pid namespace can want it any more (`preload/stale.rs`). Its path must contain nothing that `LD_PRELOAD` gives a meaning (space, colon, dollar), and its file system must
//! allow execution. The spool is the last choice.

mod stale;

use crate::error::RecordError;
use heaplab_recorder::PRELOAD;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Every copy's file name begins so; `/proc/PID/maps` is searched for it.
pub const NAME_PREFIX: &str = "heaplab-recorder-";

/// Returns the path of a copy of the preload object.
pub fn place(spool: &Path) -> Result<PathBuf, RecordError> {
    let name = format!("{NAME_PREFIX}{:08x}.so", crc32fast::hash(PRELOAD));
    candidates(spool)
        .into_iter()
        .filter(|folder| !folder.as_os_str().as_bytes().iter().any(|byte| b" :$\t\n".contains(byte)))
        .find_map(|folder| copy_in(&folder, &name))
        .ok_or_else(|| RecordError::Io {
            what: "no folder could take the recorder (it needs one that allows execution, without spaces, colons or dollars in its path), not even",
            path: spool.to_owned(),
            source: std::io::ErrorKind::PermissionDenied.into(),
        })
}

fn candidates(spool: &Path) -> Vec<PathBuf> {
    let user = rustix::process::geteuid();
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let mut folders = Vec::new();
    if user.is_root() {
        // Processes that give up root's rights must still reach it, which they cannot under /root.
        folders.push(PathBuf::from("/var/cache/heaplab"));
    } else if let Some(cache) = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache"))) {
        folders.push(cache.join("heaplab"));
    }
    folders.push(std::env::temp_dir().join(format!("heaplab-{}", user.as_raw())));
    folders.push(spool.to_owned());
    folders
}

/// The copy in `folder`, made if need be; `None` where that folder will not do.
fn copy_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let _ = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    let metadata = fs::symlink_metadata(folder).ok()?;
    // In a shared place somebody else may have made it first: what they may write must not be loaded.
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return None;
    }
    let no_exec = rustix::fs::statvfs(folder).ok()?.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
    let path = folder.join(name);
    if no_exec {
        return None;
    }
    let place = File::open(folder).ok()?;
    // Where there are no locks, nothing is removed; held until the end of this function.
    let locked = rustix::fs::flock(&place, rustix::fs::FlockOperation::LockExclusive).is_ok();
    let now = SystemTime::now();
    if locked {
        stale::remove(folder, name, now);
    }
    if fs::read(&path).is_ok_and(|bytes| bytes == PRELOAD) {
        let _ = File::open(&path).and_then(|file| file.set_modified(now));
        return Some(path);
    }
    let temporary = folder.join(format!("{name}.{}", std::process::id()));
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o755).open(&temporary).ok()?;
    let written = file
        .write_all(PRELOAD)
        .and_then(|()| file.set_permissions(fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.ok().map(|()| path)
}

/// The value of `LD_PRELOAD` that loads `object` before whatever `existing` names.
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
        assert_eq!(variable(Path::new("/a.so"), Some(OsStr::new("/b.so /c.so"))), "/a.so:/b.so /c.so");
    }

    #[test]
    fn the_copy_is_whole_and_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("cache");
        let first = copy_in(&inside, "x.so").unwrap();
        assert_eq!(fs::read(&first).unwrap(), PRELOAD);
        fs::write(&first, b"damaged").unwrap();
        assert_eq!(copy_in(&inside, "x.so"), Some(first.clone()));
        assert_eq!(fs::read(&first).unwrap(), PRELOAD);
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(copy_in(&inside, "x.so"), None, "others may write there");
    }
}
