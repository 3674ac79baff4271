//! A good bundle in which one file is replaced, in memory-backed storage where there is any.

use heaplab_trace::bundle::Bundle;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};

thread_local! {
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

/// Reads the bundle with `bytes` in place of file `name`.
pub fn read_with(name: &str, bytes: &[u8]) {
    open_with(&[(name, bytes)], |_| ());
}

/// Opens the bundle with these files in place of its own, or beside them, and, where that succeeds
/// and all of it can be read, looks at it.
pub fn open_with(files: &[(&str, &[u8])], look: impl FnOnce(Bundle)) {
    heaplab_trace::checksums::accept_wrong();
    FOLDER.with(|cell| {
        let folder = cell.get_or_init(copy).path();
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).expect("a writable folder");
        }
        // Any error will do; a panic or a timeout is the finding.
        if let Ok(bundle) = Bundle::open(folder).and_then(|bundle| bundle.verify().map(|()| bundle))
        {
            look(bundle);
        }
        for (name, _) in files {
            let (file, kept) = (folder.join(name), good().join(name));
            let restored = if kept.exists() {
                std::fs::copy(kept, file).map(drop)
            } else {
                std::fs::remove_file(file)
            };
            restored.expect("a writable folder");
        }
    });
}

/// The bundle as it is.
pub fn good() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/version-1.bundle")
}

fn copy() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
        .expect("a writable folder");
    for entry in std::fs::read_dir(good()).expect("the good bundle") {
        let entry = entry.expect("the good bundle");
        std::fs::copy(entry.path(), folder.path().join(entry.file_name()))
            .expect("a writable folder");
    }
    folder
}
