//! Development tasks: `cargo xtask check | tidy | bench NAME`.

mod aarch64;
mod bench;
mod check;
mod tidy;

use clap::{Parser, Subcommand};

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
    /// Measurements, with peers in the same run
    Bench(bench::Args),
}

fn main() -> std::process::ExitCode {
    let outcome = match CommandLine::parse().task {
        Task::Check(args) => check::run(args),
        Task::Tidy => tidy::run(),
        Task::Bench(args) => bench::run(args),
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
