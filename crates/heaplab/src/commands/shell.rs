//! `heaplab completions` and `heaplab man`: both are made from the definition of the command
//! line.

use anyhow::{Context, Result};
use clap::Command;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/completions.txt"))]
pub struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/man.txt"))]
pub struct Man {
    /// The folder for heaplab.1, heaplab-record.1, ...; created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the completions.
pub fn completions(args: &Completions, mut command: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "heaplab", &mut script);
    print!("{}", String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages.
pub fn man(args: &Man, command: Command) -> Result<ExitCode> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // The command that lists commands has no page of its own.
    let command = command.disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
