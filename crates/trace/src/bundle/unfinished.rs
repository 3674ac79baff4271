//! Folders of unfinished bundles: their writer was killed, or asked to end.
//!
//! A writer holds a lock on its folder. The lock ends with the writer, however it ends, and other
//! containers see it, while the writer's number means another process there. Between making the
//! folder and locking it only the number protects it.

use super::UNFINISHED;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Takes the lock of the folder at `path`; returns without one on file systems that have none.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let folder = open(path)?;
    let _ = rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared);
    Ok(folder)
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Removes the folders that dead writers left beside the bundle at `path`.
pub(super) fn remove(path: &Path) {
    let Some(name) = path.file_name() else { return };
    let prefix = [b".", name.as_encoded_bytes(), b".", UNFINISHED.as_bytes()].concat();
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (name, place) = (entry.file_name(), entry.path());
        let writer = name.as_encoded_bytes().strip_prefix(prefix.as_slice()).and_then(writer);
        if writer.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
            && is_unlocked(&place)
        {
            // A folder that cannot be removed disturbs nobody.
            let _ = fs::remove_dir_all(&place);
        }
    }
}

/// The writer's number, from the text behind "unfinished": ".3-77" or "-77".
fn writer(rest: &[u8]) -> Option<u32> {
    let (more, pid) = std::str::from_utf8(rest).ok()?.rsplit_once('-')?;
    (more.is_empty() || more.starts_with('.')).then(|| pid.parse().ok()).flatten()
}

fn is_unlocked(folder: &Path) -> bool {
    open(folder).is_ok_and(|folder| {
        rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

/// Removes the folder of a [`BundleWriter`](super::BundleWriter) of this process. The writer may
/// still be writing; the process must end before the writer returns from it. Either the bundle
/// already has its name, whole, or it never gets it.
pub fn abandon(unfinished: &Path) {
    // Under another name first, so that no half of it gets the bundle's name.
    let Some(name) = unfinished.file_name() else { return };
    let Some(end) = name.as_bytes().iter().rposition(|byte| *byte == b'-') else { return };
    let mut aside = OsStr::from_bytes(&name.as_bytes()[..end]).to_owned();
    aside.push(format!(".abandoned-{}", std::process::id()));
    let aside = unfinished.with_file_name(aside);
    if fs::rename(unfinished, &aside).is_ok() {
        let _ = fs::remove_dir_all(&aside);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BundleWriter, META_FILE, Meta};
    use super::*;
    use crate::tables::Tables;

    #[test]
    fn what_a_dead_writer_left_goes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.heaplab");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let (dead, own) = (ended.id(), std::process::id());
        let [left, abandoned] = [
            format!(".x.heaplab.unfinished-{dead}"),
            format!(".x.heaplab.unfinished.3.abandoned-{dead}"),
        ];
        let stay = [
            format!(".x.heaplab.unfinished-{own}"),
            format!(".y.heaplab.unfinished-{dead}"),
            format!(".x.heaplab.unfinished2-{dead}"),
            String::from(".x.heaplab.unfinished-mine"),
            format!(".x.heaplab.unfinished.locked-{dead}"),
        ];
        for name in [&left, &abandoned].into_iter().chain(&stay) {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join(META_FILE), "{}").unwrap();
        }
        let _locked = lock(&folder.path().join(&stay[4])).unwrap();
        remove(&path);
        assert!(![left, abandoned].iter().any(|name| folder.path().join(name).exists()));
        assert!(stay.iter().all(|name| folder.path().join(name).exists()));
    }

    #[test]
    fn an_abandoned_bundle_never_gets_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.heaplab");
        let writer = BundleWriter::create(&path).unwrap();
        let unfinished = writer.unfinished().to_owned();
        abandon(&unfinished);
        assert!(writer.finish(&Tables::default(), Meta::default()).is_err());
        BundleWriter::create(&path).unwrap().finish(&Tables::default(), Meta::default()).unwrap();
        abandon(&unfinished);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
