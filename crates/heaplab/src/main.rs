//! heaplab: records what a program allocates, says where the bytes go, and runs the same workload
//! on other heaps.
//!
//! Parse, call, print. Exit codes (docs/exit-codes.md): 0 done, 1 failed, 2 asked wrongly; the
//! reason is on standard error.

#[macro_use]
extern crate heaplab_terminal;
#[macro_use]
mod usage_error;

mod answer;
mod bundled;
mod commands;
mod gate;
mod heaps;
mod implied_command;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use heaplab_curve::question::AskedWrongly;
use heaplab_experiment::own_heaps::CELL;
use heaplab_export::ExportError;
use heaplab_heap::FamilyError;
use heaplab_profile::choose::ChooseError;
use heaplab_report::HeapAtError;
use heaplab_sweep::SweepError;
use heaplab_terminal::{self as terminal, OutputError, help};
use heaplab_track::TrackError;
use std::process::ExitCode;
use usage_error::UsageError;

/// A laboratory for memory managers: record what a program allocates, see where the bytes go,
/// replay it on other heaps.
#[derive(Debug, Parser)]
#[command(version, after_help = "heaplab APP.heaplab is heaplab report APP.heaplab.")]
struct CommandLine {
    /// When to write in colours: on a terminal without NO_COLOR (auto), always, never
    #[arg(long, global = true, value_name = "WHEN", default_value_t = clap::ColorChoice::Auto, hide_possible_values = true, hide_default_value = true)]
    color: clap::ColorChoice,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record what a program allocates, its children too
    Record(commands::record::Args),
    /// Show where the bytes go and what to change
    Report(commands::report::Args),
    /// Check assertions about a recording, for CI
    Check(commands::check::Args),
    /// Compare recordings before and after a change
    Compare(commands::compare::Args),
    /// Track a program's memory over the commits of its project: history, steps, bisect
    Track(Box<commands::track::Args>),
    /// Run a recorded workload on other heaps
    Replay(commands::replay::Args),
    /// Run many workloads on many heaps, on one or many machines, from a plan
    Sweep(commands::sweep::Args),
    /// Predict what a change of the program would save, without touching its code
    WhatIf(Box<commands::what_if::Args>),
    /// Measure how a garbage-collected command trades space for time
    Curve(Box<commands::curve::Args>),
    /// Turn another tool's trace into a recording
    Import(commands::import::Args),
    /// Generate a workload from distributions of sizes and lifetimes
    Generate(commands::generate::Args),
    /// Write a profile for another tool
    Export(commands::export::Args),
    /// List all heaps with their parameters
    Heaps(commands::heaps::Args),
    /// Show report and replay on a bundled recording
    Tour(commands::tour::Args),
    /// Name this moment in a running recording
    Mark(commands::mark::Args),
    /// Show a running program's own memory reports, as about:memory does
    About(commands::about::Args),
    /// Ask a running program to drop its caches, and show the memory freed
    Pressure(commands::pressure::Args),
    /// Finish a recording after heaplab was killed
    Recover(commands::recover::Args),
    /// Look up functions, files and lines of a recording again
    Symbolize(commands::symbolize::Args),
    /// Take, read, compare and check heap snapshots of JavaScript and other heaps
    Snapshot(commands::snapshot::Args),
    /// Print completions for a shell
    Completions(commands::shell::Completions),
    /// Write the manual pages
    Man(commands::shell::Man),
}

fn main() -> ExitCode {
    // First of all: the glibc under test is this process's own, and memory freed by parsing would
    // serve the workload uncounted.
    if std::env::args_os().nth(1).is_some_and(|word| word == CELL) {
        return serve_cell();
    }
    let commands = CommandLine::command();
    let words = implied_command::with_command(std::env::args_os().collect(), |word| {
        commands.find_subcommand(word).is_some()
    });
    let parsed = help::laid_out(commands, terminal::columns()).try_get_matches_from(&words);
    let line = match parsed.and_then(|words| CommandLine::from_arg_matches(&words)) {
        Ok(line) => line,
        // Help and version: clap has laid them out.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            match heaplab_curve::expanded::explanation(&words) {
                Some(reason) => eprintln!("heaplab: {reason}"),
                None => refuse(&error),
            }
            return ExitCode::from(2);
        }
    };
    terminal::choose_colours(line.color);
    let done = match line.command {
        Some(command) => run(command),
        None => {
            print!("{}", implied_command::welcome()).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
    };
    done.unwrap_or_else(|error| {
        if matches!(error.downcast_ref(), Some(OutputError::ReaderGone)) {
            return ExitCode::SUCCESS;
        }
        eprintln!("heaplab: {}", terminal::output::message(error.chain()));
        ExitCode::from(if is_misasked(&error) { 2 } else { 1 })
    })
}

/// Serves the cell of an experiment, whose request is on standard input.
fn serve_cell() -> ExitCode {
    match heaplab_experiment::own_heaps::serve(&heaps::FAMILIES) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heaplab: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the reason for refusing a command line: in clap's colours if the lines fit, because clap
/// breaks none itself.
fn refuse(error: &clap::Error) {
    let text = error.render().to_string();
    let width = terminal::error_width().unwrap_or(usize::MAX);
    if text.lines().any(|line| line.chars().count() > width) || error.print().is_err() {
        eprint!("{text}");
    }
}

/// Whether the error is the user's mistake.
fn is_misasked(error: &anyhow::Error) -> bool {
    error.is::<UsageError>()
        || error.is::<clap::Error>()
        || error.chain().any(|cause| {
            cause.is::<UsageError>()
                || cause.is::<AskedWrongly>()
                || matches!(cause.downcast_ref(), Some(OutputError::BinaryOnTerminal))
                || cause.is::<heaplab_snapshot::query::NotThere>()
                || matches!(cause.downcast_ref(), Some(ChooseError::NotThere(_)))
                || matches!(cause.downcast_ref(), Some(FamilyError::Wrong(_)))
                || matches!(cause.downcast_ref(), Some(HeapAtError::Moment(_)))
                || cause.downcast_ref::<ExportError>().is_some_and(ExportError::is_misasked)
                || cause.downcast_ref::<SweepError>().is_some_and(SweepError::is_misasked)
                || cause.downcast_ref::<TrackError>().is_some_and(TrackError::is_misasked)
        })
}

/// Runs a command line given as words, the program's name first, as if a user had typed it.
fn run_line(words: &[&str]) -> anyhow::Result<ExitCode> {
    run(CommandLine::try_parse_from(words)?.command.expect("a command is named"))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Record(args) => commands::record::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Sweep(args) => commands::sweep::run(args),
        Command::WhatIf(args) => commands::what_if::run(*args),
        Command::Curve(args) => commands::curve::run(*args),
        Command::Import(args) => commands::import::run(args),
        Command::Generate(args) => commands::generate::run(args),
        Command::Export(args) => commands::export::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Compare(args) => commands::compare::run(args),
        Command::Track(args) => commands::track::run(*args),
        Command::Heaps(args) => commands::heaps::run(args),
        Command::Tour(args) => commands::tour::run(args),
        Command::Mark(args) => commands::mark::run(args),
        Command::About(args) => commands::about::run(args),
        Command::Pressure(args) => commands::pressure::run(args),
        Command::Recover(args) => commands::recover::run(args),
        Command::Symbolize(args) => commands::symbolize::run(args),
        Command::Snapshot(args) => commands::snapshot::run(args),
        Command::Completions(args) => commands::shell::completions(&args, CommandLine::command()),
        Command::Man(args) => commands::shell::man(&args, CommandLine::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_is_sound() {
        CommandLine::command().debug_assert();
    }
}
