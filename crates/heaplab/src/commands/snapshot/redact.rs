//! `heaplab snapshot redact`: the same heap without what strings say.

use super::file::{self, Source};
use super::table::number;
use crate::output;
use anyhow::{Context, Result};
use clap::ValueEnum;
use heaplab_snapshot::rewrite::{Identifiers, Keep, Redaction, redact};
use heaplab_snapshot::rows::Rows;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot redact`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab snapshot redact a.heapsnapshot -o shared.heapsnapshot
  heaplab snapshot redact a.heapsnapshot --source src/app.js --source src/api.js -o shared.heapsnapshot
  heaplab snapshot redact a.heapsnapshot --keep names -o shared.heapsnapshot
  heaplab snapshot redact a.heapsnapshot --key \"$KEY\" -o a1.heapsnapshot    the same key keeps two files comparable

Contents of strings, numbers and patterns are replaced; length stays, and what was equal is equal.
Names of properties are kept only where they are identifiers of source code that is in the file or
given, or the runtime's own: a map keyed by e-mail addresses has secrets for names. A function's
name counts as an identifier, one that was computed too; --keep names keeps scripts' addresses.
Sizes, ids, indices, lines and columns stay.")]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which names stay
    #[arg(long, value_enum, value_name = "NAMES", default_value = "identifiers")]
    keep: KeepNames,
    /// Source code whose identifiers may stay (may be repeated)
    #[arg(long, value_name = "FILE")]
    source: Vec<PathBuf>,
    /// A long secret that makes replacements the same in several files; by default one that is forgotten. Other users see it in the list of processes
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// The choices, as they are called on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeepNames {
    /// Those that occur as identifiers in source code, and the runtime's own
    Identifiers,
    /// All names of properties, variables, functions and classes
    Names,
    /// The runtime's own alone
    Own,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let source = Source::open(&args.file)?;
    let rows = Rows::find(source.bytes())
        .with_context(|| format!("{} (heaplab snapshot validate says how far it is good)", args.file.display()))?;
    let mut identifiers = Identifiers::own();
    for path in &args.source {
        identifiers.add_source(&std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    let keep = match args.keep {
        KeepNames::Identifiers => Keep::Identifiers,
        KeepNames::Names => Keep::Names,
        KeepNames::Own => Keep::Own,
    };
    let redaction = Redaction { keep, identifiers, key: key(args.key.as_deref()) };
    let bar = file::bar(args.quiet, "redacting")?;
    let mut redacted = None;
    output::write(&args.output, false, |out| {
        let (_, done) = redact(&rows, redaction, out, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        })?;
        redacted = Some(done);
        Ok(())
    })?;
    bar.finish_and_clear();
    if let Some(redacted) = redacted {
        let (strings, kept) = (number(redacted.strings as u64), number(redacted.kept as u64));
        eprintln!("heaplab: {kept} of {strings} strings are kept somewhere as names; the others cannot be read any more");
    }
    Ok(ExitCode::SUCCESS)
}

/// Two words from a text, or from the system's randomness.
fn key(text: Option<&str>) -> [u64; 2] {
    match text {
        // Folded so that every byte counts; the text's own secrecy is what protects.
        Some(text) => {
            let mut words = [0x9e37_79b9_7f4a_7c15_u64, 0xc2b2_ae3d_27d4_eb4f];
            for (at, byte) in text.bytes().enumerate() {
                let word = &mut words[at % 2];
                *word = (*word ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
            }
            words
        }
        None => [RandomState::new().hash_one(1), RandomState::new().hash_one(2)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_for_the_same_text_and_new_without_one() {
        assert_eq!(key(Some("a secret")), key(Some("a secret")));
        assert_ne!(key(Some("a secret")), key(Some("a secres")));
        assert_ne!(key(None), key(None));
    }
}
