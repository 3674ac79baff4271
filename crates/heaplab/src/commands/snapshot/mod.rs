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
use clap::Subcommand;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot`.
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
    /// Take one each time the heap nears its limit
    Watch(watch::Args),
    /// Ask a file many questions
    Open(open::Args),
    #[command(flatten)]
    Question(Question),
    /// What was added and removed between two snapshots; over a series, what grows every time
    Diff(diff::Args),
    /// What was born between two snapshots and is alive in a third, by what holds it
    Leaks(leaks::Args),
    /// Do the steps of a file on a page, and say what they leaked
    Scenario(scenario::Args),
    /// Write a snapshot without what its strings say, to share it
    Redact(redact::Args),
    /// Write only what some objects retain and what leads to them
    Trim(trim::Args),
    /// Write a snapshot anew, in the columns of another writer
    Convert(convert::Args),
    /// Make a file that opens from one that was cut
    Repair(repair::Args),
    /// Say how far a file is good
    Validate(validate::Args),
}

/// What is asked of one file, by a command or in a session.
#[derive(Debug, Subcommand)]
enum Question {
    /// Classes: count, shallow and retained size, distance
    Summary(summary::Args),
    /// What refers to an object
    Retainers(retainers::Args),
    /// The shortest way from a root to an object, or to each object of a class
    Path(path::Args),
    /// What holds what alive: the dominator tree
    Dominators(dominators::Args),
    /// One object and what it refers to
    Object(object::Args),
    /// Strings that are on the heap more than once
    Strings(strings::Args),
    /// Ask for assertions: exit code 1 where one does not hold
    Check(check::Args),
    /// Objects as rows: filter, group, sort, top
    Query(query::Args),
}

impl Question {
    fn answer(self, open: file::Open) -> Result<ExitCode> {
        match self {
            Question::Summary(args) => summary::run(args, open),
            Question::Retainers(args) => retainers::run(args, open),
            Question::Path(args) => path::run(args, open),
            Question::Dominators(args) => dominators::run(args, open),
            Question::Object(args) => object::run(args, open),
            Question::Strings(args) => strings::run(args, open),
            Question::Check(args) => check::run(args, open),
            Question::Query(args) => query::run(args, open),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Take(args) => take::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Open(args) => open::run(args),
        Command::Question(question) => question.answer(None),
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
