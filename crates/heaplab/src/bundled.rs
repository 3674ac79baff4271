//! The recording that the binary carries, so that the tour needs nothing but heaplab itself.

use anyhow::{Context, Result};
use std::path::Path;

macro_rules! carried {
    ($($name:literal),+) => {
        &[$(($name, include_bytes!(concat!("../../../traces/sqlite.heaplab/", $name)))),+]
    };
}

/// The files of `traces/sqlite.heaplab`.
const SQLITE: &[(&str, &[u8])] = heaplab_trace::with_bundle_files!(carried);

/// Writes the bundled recording of SQLite to `folder`, unless it lies there already. The folder
/// appears whole or not at all.
pub fn unpack_sqlite(folder: &Path) -> Result<()> {
    if same(folder) {
        return Ok(());
    }
    let parent =
        folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)
        .with_context(|| format!("{}: cannot create this folder", parent.display()))?;
    let unfinished = tempfile::Builder::new()
        .prefix(".unpacking")
        .tempdir_in(parent)
        .with_context(|| format!("{}: cannot write here", parent.display()))?;
    for (name, content) in SQLITE {
        let path = unfinished.path().join(name);
        std::fs::write(&path, content)
            .with_context(|| format!("{}: cannot write", path.display()))?;
    }
    if folder.exists() {
        anyhow::bail!(
            "{}: something else is there already; choose another folder with --into",
            folder.display()
        );
    }
    std::fs::rename(unfinished.keep(), folder)
        .with_context(|| format!("{}: cannot create", folder.display()))
}

fn same(folder: &Path) -> bool {
    SQLITE.iter().all(|(name, content)| {
        std::fs::read(folder.join(name)).is_ok_and(|found| found == *content)
    })
}
