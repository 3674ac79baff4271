//! `heaplab snapshot`: take, read, compare and check heap snapshots. One file a subcommand.

mod check;
mod convert;
mod diff;
mod dominators;
mod file;
mod index;
mod leaks;
mod object;
mod object_filter;
mod open;
mod packed;
mod path;
mod query;
mod redact;
mod repair;
mod retainers;
mod rewriting;
mod scenario;
mod strings;
mod subject;
mod summary;
mod take;
mod target;
mod trim;
mod validate;
mod watch;

use anyhow::Result;
use clap::{ArgMatches, FromArgMatches, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot.txt"))]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take a snapshot of a running Node or Chromium
    Take(take::Args),
    /// Take a snapshot each time the heap nears its limit
    Watch(watch::Args),
    /// Ask many questions about a file, in a session or in a browser
    Open(open::Args),
    #[command(flatten)]
    Question(OfFile),
    /// Compare two snapshots: added and removed objects; in a series, classes that grow every time
    Diff(diff::Args),
    /// Find leaks: objects born between two snapshots and alive in a third, by their holders
    Leaks(leaks::Args),
    /// Run the steps of a file on a web page, and show what they leaked
    Scenario(scenario::Args),
    /// Write a snapshot without the contents of its strings, to share it
    Redact(redact::Args),
    /// Write only the memory that some objects retain and the paths to them
    Trim(trim::Args),
    /// Write a snapshot in the format of another writer
    Convert(convert::Args),
    /// Repair a cut file so that readers open it
    Repair(repair::Args),
    /// Check whether a file is whole, and how far it is good
    Validate(validate::Args),
}

/// A question about one file: by a command that names it first ([`OfFile`]), or in a session.
#[derive(Debug, Subcommand)]
enum Question {
    /// List classes: count, shallow and retained size, distance
    Summary(summary::Args),
    /// Show the objects that refer to an object
    Retainers(retainers::Args),
    /// Show the shortest path from a root to an object, or to each object of a class
    Path(path::Args),
    /// Show the dominator tree: which object keeps which alive
    Dominators(dominators::Args),
    /// Show one object and its references
    Object(object::Args),
    /// List strings with several copies on the heap
    Strings(strings::Args),
    /// Check assertions: exit code 1 if one does not hold
    Check(check::Args),
    /// Query objects as rows: filter, group, sort, top
    Query(query::Args),
}

impl Question {
    fn answer(self, file: &Path, open: file::Open) -> Result<ExitCode> {
        match self {
            Question::Summary(args) => summary::run(file, args, open),
            Question::Retainers(args) => retainers::run(file, args, open),
            Question::Path(args) => path::run(file, args, open),
            Question::Dominators(args) => dominators::run(file, args, open),
            Question::Object(args) => object::run(file, args, open),
            Question::Strings(args) => strings::run(file, args, open),
            Question::Check(args) => check::run(file, args, open),
            Question::Query(args) => query::run(file, args, open),
        }
    }
}

/// A question and the file, which is its first argument.
#[derive(Debug)]
struct OfFile {
    file: PathBuf,
    question: Question,
}

impl OfFile {
    fn with_file(question: clap::Command) -> clap::Command {
        let mut place = 1;
        let file = clap::Arg::new("file")
            .value_name("FILE")
            .help("The snapshot")
            .value_parser(clap::value_parser!(PathBuf))
            .required(true)
            .index(place);
        let behind_file = |arg: clap::Arg| {
            if !arg.is_positional() {
                return arg;
            }
            place += 1;
            arg.index(place)
        };
        question.mut_args(behind_file).arg(file).display_order(None)
    }
}

impl Subcommand for OfFile {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        let questions = Question::augment_subcommands(clap::Command::new("questions"));
        command.subcommands(questions.get_subcommands().cloned().map(OfFile::with_file))
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        OfFile::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Question::has_subcommand(name)
    }
}

impl FromArgMatches for OfFile {
    fn from_arg_matches(matches: &ArgMatches) -> clap::error::Result<OfFile> {
        OfFile::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> clap::error::Result<OfFile> {
        let file = matches.subcommand().and_then(|(_, matches)| matches.get_one("file").cloned());
        let question = Question::from_arg_matches_mut(matches)?;
        Ok(OfFile { file: file.unwrap_or_default(), question })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> clap::error::Result<()> {
        *self = OfFile::from_arg_matches(matches)?;
        Ok(())
    }
}

pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Take(args) => take::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Open(args) => open::run(args),
        Command::Question(OfFile { file, question }) => question.answer(&file, None),
        Command::Diff(args) => diff::run(args),
        Command::Leaks(args) => leaks::run(args),
        Command::Scenario(args) => scenario::run(args),
        Command::Redact(args) => redact::run(args),
        Command::Trim(args) => trim::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Validate(args) => validate::run(args),
    }
}
