//! The index beside a snapshot (FILE.index): `--index` writes it, and reads it the next time.

use super::file::{Reading, Source};
use anyhow::Result;
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::index::{self, Indexed, Key};
use heaplab_terminal::bus::{self, Mapped, MappedFile};
use heaplab_terminal::whole_file;
use std::path::PathBuf;

/// The place of a snapshot's index.
pub struct Beside<'s> {
    source: &'s Source,
    path: PathBuf,
    key: Key,
    map: Option<MappedFile>,
}

impl<'s> Beside<'s> {
    /// The place for an open snapshot.
    pub fn of(source: &'s Source, reading: &Reading) -> Beside<'s> {
        let mut path = source.path.as_os_str().to_owned();
        path.push(".index");
        let path = PathBuf::from(path);
        let map = bus::map(&path, Mapped::Snapshot).ok().flatten();
        let key = Key::of(source.bytes(), &reading.read_options(), &reading.options());
        Beside { source, path, key, map }
    }

    /// Its content, if it exists, is whole and belongs to the snapshot.
    pub fn open(&self, threads: usize) -> Option<Indexed<'_>> {
        Indexed::open(self.map.as_deref()?, self.source.bytes(), &self.key, threads).ok()
    }

    /// Writes it.
    pub fn keep(&self, analysis: &Analysis) -> Result<()> {
        whole_file::write_private(&self.path, true, |out| -> Result<()> {
            Ok(index::write(analysis, &self.key, out)?)
        })
    }
}
