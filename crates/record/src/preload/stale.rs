//! Copies of the preload object that other builds of heaplab left in the cache.
//!
//! A copy is removed once no heaplab has placed it for a week and no process in `/proc` has it
//! mapped or named in its environment (`LD_PRELOAD`, `NODE_OPTIONS`). If containers share the
//! cache, a process of another pid namespace is not seen, and only the week protects its copy. A
//! process started under a copy has one or the other while it can start another. Placing a copy
//! sets its modification time under the folder's lock, and copies are removed only under that lock:
//! none goes away between being placed and being loaded. A copy is a folder; an older heaplab's is
//! a file. The builds used within a week bound the number of copies.

use super::{FOLDER_PREFIX, NAME_PREFIX};
use crate::proc_fs;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How long an unplaced copy stays.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);

/// Removes from `folder`, with the lock held by the caller, the copies except `own` that are not
/// wanted at `now`.
pub fn remove(folder: &Path, own: &str, now: SystemTime) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let begins = |prefix: &str| name.as_bytes().starts_with(prefix.as_bytes());
        let is_copy =
            (begins(NAME_PREFIX) || begins(FOLDER_PREFIX)) && name.as_bytes() != own.as_bytes();
        let is_old = || {
            entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .is_ok_and(|at| now.duration_since(at).is_ok_and(|since| since > UNUSED))
        };
        if is_copy && is_old() && !in_use(name.as_bytes()) {
            // A copy that cannot be removed does no harm.
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// Whether a process has mapped the file, or one in the folder, or preloads it into its children. A
/// process that may not be inspected counts as not using it: if it does, its children run with a
/// line of the dynamic linker's on standard error.
fn in_use(name: &[u8]) -> bool {
    proc_fs::all().into_iter().any(|pid| {
        let names = |variable| {
            proc_fs::environment(pid, variable)
                .is_some_and(|value| memchr::memmem::find(value.as_bytes(), name).is_some())
        };
        names("LD_PRELOAD") || names("NODE_OPTIONS") || proc_fs::maps(pid, name) == Some(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_what_nothing_wants_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["own", "old", "named", "fresh"].map(|name| format!("{FOLDER_PREFIX}{name}"));
        let old_file = format!("{NAME_PREFIX}old.so");
        let old = SystemTime::now() - UNUSED - Duration::from_secs(60);
        for name in &names {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("x.so"), "x").unwrap();
        }
        for name in [&old_file, "thesis.txt"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        for name in names.iter().map(String::as_str).chain([old_file.as_str(), "thesis.txt"]) {
            let file = fs::File::open(folder.path().join(name)).unwrap();
            file.set_modified(if name.ends_with("fresh") { SystemTime::now() } else { old })
                .unwrap();
        }
        // Does not load it itself, but its children would.
        let mut child = Command::new("sleep")
            .arg("60")
            .env("LD_PRELOAD", folder.path().join(&names[2]).join("$PLATFORM/x.so"))
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // The parent goes on once the child has its new memory, a moment before the kernel shows
        // its environment.
        while proc_fs::environment(child.id(), "LD_PRELOAD").is_none() {
            assert_eq!(child.try_wait().unwrap(), None, "it sleeps");
            std::thread::sleep(Duration::from_millis(1));
        }
        remove(folder.path(), &names[0], SystemTime::now());
        let left = || {
            let mut left: Vec<_> = fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            left.sort();
            left
        };
        let mut expected =
            vec![names[3].clone(), names[2].clone(), names[0].clone(), "thesis.txt".into()];
        expected.sort();
        assert_eq!(left(), expected);
        child.kill().unwrap();
        child.wait().unwrap();
        remove(folder.path(), &names[0], SystemTime::now());
        expected.retain(|name| name != &names[2]);
        assert_eq!(left(), expected);
    }
}
