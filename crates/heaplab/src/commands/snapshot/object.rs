//! `heaplab snapshot object`: one object and its references.

use super::file::Open;
use super::subject::OfObject;
use anyhow::Result;
use heaplab_snapshot_view::object::References;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-object.txt"))]
pub struct Args {
    #[command(flatten)]
    object: OfObject,
    /// References to show, the largest retained sizes first; 0: all, as in JSON
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
}

pub fn run(file: &Path, args: Args, open: Open) -> Result<ExitCode> {
    args.object.answer(file, "heaplab-snapshot-object", open, &References { top: args.top })
}
