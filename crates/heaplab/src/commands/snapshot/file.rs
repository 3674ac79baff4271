//! Snapshots from files: mapped, read and analysed, with a line of progress on a terminal.

use super::index::Beside;
use super::packed::unpack;
use anyhow::{Context, Result};
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::packed::Packing;
use heaplab_snapshot::rewrite::{RewriteError, is_repairable};
use heaplab_snapshot::rows::Rows;
use heaplab_snapshot::{ReadError, ReadOptions, Snapshot};
use heaplab_terminal::bus::{self, Mapped, MappedFile};
use heaplab_terminal::progress::{self, ProgressBar, spinner};
use heaplab_text::words::bytes;
use std::path::{Path, PathBuf};

/// How files are read, the same for every command.
#[derive(Clone, Debug, clap::Args)]
pub struct Reading {
    /// Threads to use: 1 or 2
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    threads: u8,
    /// Accept a file in which two objects have the same id; diffs of such files are wrong
    #[arg(long)]
    pub allow_duplicate_ids: bool,
    /// Show exact sizes of 4 GiB and more; DevTools keeps 32 bits of an object's size
    #[arg(long)]
    exact_sizes: bool,
    /// Keep an index beside the file (FILE.index, about as large): later questions are faster
    #[arg(long)]
    pub index: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

impl Reading {
    /// How to read.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions {
            threads: self.threads.into(),
            allow_duplicate_ids: self.allow_duplicate_ids,
            ..ReadOptions::default()
        }
    }

    /// How to analyse.
    pub fn options(&self) -> Options {
        Options {
            threads: self.threads.into(),
            exact_sizes: self.exact_sizes,
            ..Options::default()
        }
    }

    /// A spinner.
    pub fn spinner(&self, message: String) -> ProgressBar {
        spinner(self.quiet, message)
    }
}

/// A bar from 0 to all.
pub fn bar(quiet: bool, message: &'static str) -> ProgressBar {
    progress::bar(quiet, 1, "{msg} {wide_bar} {percent} %").with_message(message)
}

/// A file's bytes: mapped, or unpacked if the file is packed.
pub struct Source {
    /// Its name.
    pub path: PathBuf,
    map: Option<MappedFile>,
    unpacked: Option<Vec<u8>>,
}

impl Source {
    /// Maps a file, or unpacks it.
    pub fn open(path: &Path, quiet: bool) -> Result<Source> {
        Source::open_as(path, quiet, false)
    }

    /// The same for a file that may be cut: a packed one up to its cut.
    pub fn open_cut(path: &Path, quiet: bool) -> Result<Source> {
        Source::open_as(path, quiet, true)
    }

    fn open_as(path: &Path, quiet: bool, begun_is_enough: bool) -> Result<Source> {
        let map = bus::map(path, Mapped::Snapshot)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let packed = map.as_deref().and_then(|bytes| Some((Packing::of(bytes)?, bytes)));
        let unpacked = packed.map(|(packing, packed)| {
            let bar = spinner(quiet, format!("unpacking {}", path.display()));
            let unpacked = unpack(packing, path, packed, begun_is_enough, &mut |there| {
                bar.set_message(format!("unpacking {}: {}", path.display(), bytes(there)))
            });
            bar.finish_and_clear();
            unpacked
        });
        let unpacked = unpacked.transpose()?;
        Ok(Source { path: path.into(), map, unpacked })
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        self.unpacked.as_deref().or(self.map.as_deref()).unwrap_or_default()
    }

    /// Reads it as a snapshot.
    pub fn read(&self, reading: &Reading) -> Result<Snapshot<'_>> {
        let bar = reading.spinner(format!(
            "reading {} ({})",
            self.path.display(),
            bytes(self.bytes().len() as u64)
        ));
        let snapshot = Snapshot::read_with(self.bytes(), &reading.read_options());
        bar.finish_and_clear();
        snapshot.map_err(|error| self.damaged(&error))
    }

    /// Gives `with` the answers: with `--index` from a good index beside the file, otherwise from
    /// the file. An index that cannot be written costs a warning, not the answer.
    pub fn analysed<T>(
        &self,
        reading: &Reading,
        with: impl FnOnce(&Analysis) -> Result<T>,
    ) -> Result<T> {
        let bar = reading.spinner(format!("looking at the index of {}", self.path.display()));
        let beside = reading.index.then(|| Beside::of(self, reading));
        let indexed = beside.as_ref().and_then(|beside| beside.open(reading.threads.into()));
        bar.finish_and_clear();
        if let Some(indexed) = indexed {
            self.release();
            return with(&indexed.analysis());
        }
        let snapshot = self.read(reading)?;
        let bar = reading.spinner(format!(
            "analysing {} objects",
            heaplab_text::words::count(snapshot.graph.node_count() as u64)
        ));
        let analysis = Analysis::of(&snapshot, &reading.options());
        bar.finish_and_clear();
        if let Some(beside) = beside {
            let bar = reading.spinner("writing the index".into());
            let kept = beside.keep(&analysis);
            bar.finish_and_clear();
            if let Err(error) = kept {
                eprintln!("heaplab: the answer is complete, its index is not kept: {error:#}");
            }
        }
        self.release();
        with(&analysis)
    }

    /// Gives its pages back: answers need its texts alone.
    fn release(&self) {
        self.map.iter().for_each(MappedFile::release);
    }

    /// Finds its lists, to write them anew.
    pub fn rows(&self, allow_duplicate_ids: bool) -> Result<Rows<'_>> {
        let mut rows = Rows::find(self.bytes()).map_err(|damage| self.damaged(&damage))?;
        if allow_duplicate_ids {
            rows.allow_duplicate_ids();
        }
        Ok(rows)
    }

    /// Why the file was not written anew: for a damaged file, the damage.
    pub fn not_rewritten(&self, error: RewriteError) -> anyhow::Error {
        match error {
            RewriteError::Damage(damage) => self.damaged(&damage),
            other => anyhow::Error::new(other)
                .context(format!("{}: cannot be written anew", self.path.display())),
        }
    }

    fn damaged(&self, why: &ReadError) -> anyhow::Error {
        let path = self.path.display();
        let otherwise =
            if why.is_duplicate_id { "; --allow-duplicate-ids takes it as it is" } else { "" };
        if !is_repairable(self.bytes()) {
            return anyhow::anyhow!("{path}: {why}");
        }
        anyhow::anyhow!(
            "{path}: {why}\nheaplab snapshot validate {path} names the undamaged part, heaplab snapshot repair writes a file of it{otherwise}"
        )
    }
}

/// A file that a session has open.
pub type Open<'o, 's, 'a> = Option<(&'o Path, &'o Analysis<'s, 'a>)>;

/// Gives `with` the answers of a file; reads and analyses it first, unless it is open.
pub fn analysed<T>(
    path: &Path,
    reading: &Reading,
    open: Open,
    with: impl FnOnce(&Analysis) -> Result<T>,
) -> Result<T> {
    if let Some((_, analysis)) = open.filter(|(open, _)| *open == path) {
        return with(analysis);
    }
    Source::open(path, reading.quiet)?.analysed(reading, with)
}

/// The same for several files. Opens all before it reads the first.
pub fn all_analysed<T>(
    paths: &[PathBuf],
    reading: &Reading,
    with: &mut dyn FnMut(&[&Analysis]) -> Result<T>,
) -> Result<T> {
    let open = |path: &PathBuf| Source::open(path, reading.quiet);
    let sources = paths.iter().map(open).collect::<Result<Vec<_>>>()?;
    analysed_behind(&[], &sources, reading, with)
}

fn analysed_behind<T>(
    before: &[&Analysis],
    sources: &[Source],
    reading: &Reading,
    with: &mut dyn FnMut(&[&Analysis]) -> Result<T>,
) -> Result<T> {
    let Some((source, rest)) = sources.split_first() else { return with(before) };
    source.analysed(reading, |analysis| {
        analysed_behind(&[before, &[analysis]].concat(), rest, reading, with)
    })
}
