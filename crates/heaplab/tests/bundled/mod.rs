//! Copies of the bundled recordings, for tests that replay one: a replay keeps its program and its
//! cells beside the recording, and the tree stays as it was checked out.

use std::path::{Path, PathBuf};

/// A copy in `folder` of the recording `name` of `traces/`.
pub fn copied(name: &str, folder: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{name}.heaplab"));
    let to = folder.join(from.file_name().unwrap());
    std::fs::create_dir(&to).unwrap();
    for file in heaplab_trace::bundle::FILES {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    to
}
