//! `heaplab snapshot redact`: the same heap without what strings say.

use super::rewriting::Rewriting;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use heaplab_snapshot::rewrite::{Identifiers, Keep, Key, Redaction, redact};
use heaplab_text::words::count as number;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `heaplab snapshot redact`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-redact.txt"))]
pub struct Args {
    #[command(flatten)]
    rewriting: Rewriting,
    /// Which names stay
    #[arg(long, value_enum, value_name = "NAMES", default_value = "identifiers")]
    keep: KeepNames,
    /// Source code whose identifiers may stay: JavaScript or TypeScript, or Python (*.py); may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    source: Vec<PathBuf>,
    /// A long secret that makes replacements the same in several files; by default one that is
    /// forgotten. Other users see it in the list of processes: --key-file does not have that
    #[arg(long, value_name = "TEXT", conflicts_with = "key_file")]
    key: Option<String>,
    /// A file with that secret
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Take a file in which objects have the same id: the first keeps it, the others get new ones,
    /// larger than any
    #[arg(long)]
    allow_duplicate_ids: bool,
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
    let source = args.rewriting.open(args.quiet)?;
    let rows = source.rows(args.allow_duplicate_ids)?;
    let mut identifiers = Identifiers::own();
    for path in &args.source {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let is_python =
            path.extension().is_some_and(|extension| extension == "py" || extension == "pyi");
        let whole =
            if is_python { identifiers.add_python(&text) } else { identifiers.add_source(&text) };
        if !whole {
            eprintln!(
                "heaplab: {}: a part of it cannot be told from text without a parser; names that are there alone do not stay",
                path.display()
            );
        }
    }
    let keep = match args.keep {
        KeepNames::Identifiers => Keep::Identifiers,
        KeepNames::Names => Keep::Names,
        KeepNames::Own => Keep::Own,
    };
    let redaction =
        Redaction { keep, identifiers, key: key(args.key.as_deref(), args.key_file.as_deref())? };
    let progress = (args.quiet, "redacting");
    let redacted = args.rewriting.write(&source, progress, false, |out, progress| {
        redact(&rows, redaction, out, progress).map(|(_, done)| done)
    })?;
    let told = json!({"strings": redacted.strings, "kept": redacted.kept});
    args.rewriting.tell("heaplab-snapshot-redact", &redacted.written, told)?;
    if !args.rewriting.json {
        let (strings, kept) = (number(redacted.strings as u64), number(redacted.kept as u64));
        eprintln!(
            "heaplab: {kept} of {strings} strings are kept somewhere as names; the others cannot be read any more"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A shorter key can be guessed.
const KEY_BYTES_MIN: usize = 16;

/// Made of a text, or of the system's randomness.
fn key(text: Option<&str>, file: Option<&Path>) -> Result<Key> {
    let given = match (text, file) {
        (Some(text), _) => Some((text.as_bytes().to_vec(), "the key".to_owned())),
        (None, Some(path)) => {
            let path_shown = path.display().to_string();
            Some((
                std::fs::read(path).with_context(|| format!("cannot read {path_shown}"))?,
                path_shown,
            ))
        }
        (None, None) => None,
    };
    if let Some((text, from)) = given {
        // An editor's line end is no part of a secret.
        let text = text.strip_suffix(b"\r\n").or_else(|| text.strip_suffix(b"\n")).unwrap_or(&text);
        ensure!(!text.is_empty(), "{from} is empty: a key that everybody has protects nothing");
        if text.len() < KEY_BYTES_MIN {
            eprintln!(
                "heaplab: {from} has {} bytes, and who guesses it can try what strings were; take {KEY_BYTES_MIN} and more",
                text.len()
            );
        }
        return Ok(Key::of_text(text));
    }
    let mut random = [0; 32];
    let filled = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .context("no randomness for a key")?;
    ensure!(filled == random.len(), "no randomness for a key: {filled} bytes of {}", random.len());
    Ok(Key::new(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_for_the_same_text_and_new_without_one() {
        let of = |text| key(Some(text), None).unwrap();
        assert_eq!(of("a secret"), of("a secret"));
        assert_ne!(of("a secret"), of("a secres"));
        let random = || key(None, None).unwrap();
        assert_ne!(random(), random());
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(key(None, Some(file.path())).unwrap_err().to_string().contains("is empty"));
        for line_end in ["", "\n", "\r\n"] {
            std::fs::write(file.path(), line_end).unwrap();
            assert!(
                key(None, Some(file.path())).unwrap_err().to_string().contains("is empty"),
                "{line_end:?}"
            );
            assert!(
                key(Some(line_end), None).unwrap_err().to_string().contains("the key is empty"),
                "{line_end:?}"
            );
            std::fs::write(file.path(), format!("a secret{line_end}")).unwrap();
            assert_eq!(key(None, Some(file.path())).unwrap(), of("a secret"));
        }
    }
}
