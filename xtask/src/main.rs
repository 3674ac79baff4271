//! Development tasks: `cargo xtask check | tidy | study NAME | bench NAME`.

mod aarch64;
mod check;
mod programs;
mod test_programs;
mod tidy;

use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// Development tasks of heaplab.
#[derive(Debug, Parser)]
#[command(max_term_width = 80)]
struct CommandLine {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Everything that CI runs: format, clippy without warnings, tidy, tests, docs
    Check(check::Args),
    /// The house rules that a machine can see
    Tidy,
    /// Published experiments, rerun: lists them, or measures the claims of one (NAME --help)
    #[command(disable_help_flag = true)]
    Study {
        /// The study and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Measurements, with peers in the same run (NAME --help)
    #[command(disable_help_flag = true)]
    Bench {
        /// The benchmark and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> std::process::ExitCode {
    let outcome = match CommandLine::parse().task {
        Task::Check(args) => check::run(args),
        Task::Tidy => tidy::run(),
        Task::Study { arguments } => match programs::study(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Task::Bench { arguments } => match programs::bench(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_line_is_sound() {
        <CommandLine as clap::CommandFactory>::command().debug_assert();
    }
}
