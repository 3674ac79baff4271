//! What stands after the options in each command's `--help`, laid out for the terminal at hand.

use clap::Command;
use heaplab_text::help::lay_out;

/// The command and all below it, for a terminal of so many columns.
pub fn laid_out(command: Command, columns: usize) -> Command {
    let text = command.get_after_help().map(ToString::to_string);
    let command = match text {
        Some(text) => command.after_help(lay_out(text.trim_end(), columns)),
        None => command,
    };
    let command = command.term_width(columns);
    let names: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().to_string()).collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |below| laid_out(below, columns))
    })
}
