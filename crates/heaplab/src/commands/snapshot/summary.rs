//! `heaplab snapshot summary`: classes, as DevTools' Summary.

use super::file::{self, Open, Reading};
use super::object_filter::since;
use crate::answer::{HtmlFile, file_name};
use anyhow::Result;
use heaplab_expression::Pattern;
use heaplab_snapshot::analysis::{Analysis, Class};
use heaplab_snapshot::query::filter::Wanted;
use heaplab_snapshot::summary::Summary;
use heaplab_snapshot_view::summary as view;
use heaplab_terminal as terminal;
use heaplab_terminal::output;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-summary.txt"))]
pub struct Args {
    /// Classes to show; 0: all
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Sort by this column
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "retained")]
    sort: view::Order,
    /// Show only classes of this name; * stands for any text
    #[arg(long, value_name = "PATTERN")]
    class: Option<String>,
    /// Count only some objects, as DevTools' filters do: contexts, detached, console, ... (--help
    /// lists them)
    #[arg(long, value_name = "FILTER", long_help = FILTER_HELP)]
    filter: Option<Wanted>,
    /// Count only objects allocated after this older snapshot of the same session (see `diff`)
    #[arg(long, value_name = "OLDER", conflicts_with = "filter")]
    since: Option<PathBuf>,
    /// Also list classes that DevTools overwrites with another class of the same name
    #[arg(long, conflicts_with_all = ["filter", "since"])]
    overwritten: bool,
    /// Write JSON, with all classes unless --class selects some
    #[arg(long, conflicts_with = "html")]
    json: bool,
    #[command(flatten)]
    html: HtmlFile,
    #[command(flatten)]
    reading: Reading,
}

/// What `--filter` takes. The file has no line end.
pub const FILTER_HELP: &str = include_str!("../../../help/snapshot-filter.txt");

pub fn run(file: &Path, args: Args, open: Open) -> Result<ExitCode> {
    args.html.check()?;
    let (summary, overwritten) = summary(file, &args, open)?;
    if overwritten > 0 && !args.overwritten {
        let (are, classes) = if overwritten == 1 { ("is", "class") } else { ("are", "classes") };
        output::note(format_args!(
            "heaplab: {overwritten} {classes} {are} not listed, because DevTools overwrites what has the name of another class; \
             --overwritten lists all\n"
        ));
    }
    let pattern = args.class.as_deref().map(Pattern::new);
    let fits = |class: &&Class| pattern.as_ref().is_none_or(|pattern| pattern.fits(&class.text()));
    let mut classes: Vec<(u32, &Class)> = (0..).zip(summary.classes.iter().filter(fits)).collect();
    args.sort.sort(&mut classes);
    let filtered = args.filter.is_some() || args.since.is_some();
    if args.json {
        println!("{}", serde_json::to_string(&view::json(&summary, &classes))?)?;
    } else if !args.html.write(|| view::html(&file_name(file), &summary, &classes, filtered))? {
        let shown = if args.top == 0 { classes.len() } else { args.top.min(classes.len()) };
        print!("{}", view::text(&summary, &classes, shown, filtered, terminal::columns()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is asked for, and how many classes DevTools overwrites.
fn summary(file: &Path, args: &Args, open: Open) -> Result<(Summary, usize)> {
    file::analysed(file, &args.reading, open, |analysis| {
        let mut summary = Summary::of(analysis);
        let since =
            args.since.as_deref().map(|older| since(older, &args.reading, analysis)).transpose()?;
        if let Some(wanted) = since.as_ref().or(args.filter.as_ref()) {
            summary.classes = wanted.classes(analysis)?;
        }
        if args.overwritten {
            summary.classes =
                analysis.classes().iter().filter(|class| class.count > 0).cloned().collect();
        }
        Ok((summary, overwritten(analysis)))
    })
}

/// Classes with objects that DevTools does not show.
fn overwritten(analysis: &Analysis) -> usize {
    analysis.classes().iter().filter(|class| class.count > 0 && class.shadowed).count()
}
