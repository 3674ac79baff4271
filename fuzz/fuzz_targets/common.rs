//! A good bundle in which one file is replaced, in memory-backed storage where there is any.

use heaplab_trace::bundle::Bundle;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};

thread_local! {
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

/// Reads the bundle with `bytes` in place of file `name`.
pub fn read_with(name: &str, bytes: &[u8]) {
    FOLDER.with(|cell| {
        let folder = cell.get_or_init(copy).path();
        let file = folder.join(name);
        std::fs::write(&file, bytes).expect("a writable folder");
        // Any error will do; a panic or a timeout is the finding.
        let _ = Bundle::open(folder).and_then(|bundle| bundle.verify());
        std::fs::copy(good().join(name), &file).expect("a writable folder");
    });
}

fn good() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/trace/tests/data/version-1.bundle")
}

fn copy() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a writable folder");
    for entry in std::fs::read_dir(good()).expect("the good bundle") {
        let entry = entry.expect("the good bundle");
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("a writable folder");
    }
    folder
}
