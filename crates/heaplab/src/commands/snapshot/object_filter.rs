//! Which objects a question is of: those that pass a filter, those that are new.

use super::diff::warned;
use super::file::{Reading, Source};
use super::summary::FILTER_HELP;
use anyhow::{Result, bail};
use heaplab_snapshot::analysis::{Analysis, Filter};
use heaplab_snapshot::query::filter::Wanted;
use heaplab_snapshot::session::SnapshotIds;
use heaplab_snapshot::{Node, Snapshot};
use std::path::{Path, PathBuf};

/// `--filter` and `--since`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ObjectFilter {
    /// Count only some objects, as DevTools' filters do: contexts, detached, ... (see --help)
    #[arg(long, value_name = "FILTER", long_help = FILTER_HELP)]
    filter: Option<Wanted>,
    /// Count only objects allocated after this older snapshot of the same session (see `diff`)
    #[arg(long, value_name = "OLDER")]
    since: Option<PathBuf>,
}

impl ObjectFilter {
    /// Whether all objects are looked at.
    pub fn is_all(&self) -> bool {
        self.filter.is_none() && self.since.is_none()
    }

    /// Whether an object is to be looked at.
    pub fn chosen(
        &self,
        reading: &Reading,
        analysis: &Analysis,
    ) -> Result<impl Fn(Node) -> bool + use<>> {
        let mut sets = Vec::new();
        if let Some(filter) = &self.filter {
            sets.push(filter.nodes(analysis)?);
        }
        if let Some(older) = &self.since {
            sets.push(since(older, reading, analysis)?.nodes(analysis)?);
        }
        Ok(move |node| sets.iter().all(|set| set.contains(node)))
    }

    /// Of these objects the ones to be looked at; there has to be one.
    pub fn of(
        &self,
        mut nodes: Vec<Node>,
        reading: &Reading,
        analysis: &Analysis,
    ) -> Result<Vec<Node>> {
        let found = nodes.len();
        let chosen = self.chosen(reading, analysis)?;
        nodes.retain(|node| chosen(*node));
        if nodes.is_empty() && found > 0 {
            misasked!("of {found} such objects none passes --filter and --since");
        }
        Ok(nodes)
    }
}

/// What was allocated after an older snapshot of the same process was taken.
pub fn since(older: &Path, reading: &Reading, analysis: &Analysis) -> Result<Wanted> {
    let before = moment(older, reading)?;
    warned(&before, &SnapshotIds::of(analysis.snapshot()));
    let after = before.last_object_id();
    let until = analysis.snapshot().graph.last_object_id();
    if after > until {
        bail!(
            "{} has later ids (up to {after}; here {until}): it is the newer one, or of another process",
            older.display()
        );
    }
    Ok(Wanted::Named(Filter::Ids(after, until)))
}

/// The ids of a file, which is not kept.
pub fn moment(path: &Path, reading: &Reading) -> Result<SnapshotIds> {
    of_file(path, reading, SnapshotIds::of)
}

/// Something of a file, which is not kept.
pub fn of_file<T>(path: &Path, reading: &Reading, of: impl FnOnce(&Snapshot) -> T) -> Result<T> {
    let source = Source::open(path, reading.quiet)?;
    if reading.index {
        return source.analysed(reading, |analysis| Ok(of(analysis.snapshot())));
    }
    Ok(of(&source.read(reading)?))
}
