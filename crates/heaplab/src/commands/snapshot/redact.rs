//! `heaplab snapshot redact`: the same heap without the contents of strings.

use super::rewriting::Rewriting;
use anyhow::{Context, Result, ensure};
use heaplab_snapshot::rewrite::{Identifiers, Keep, Key, Redaction, redact};
use heaplab_text::words::count as number;
use rustix::rand::GetRandomFlags;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-redact.txt"))]
pub struct Args {
    #[command(flatten)]
    rewriting: Rewriting,
    /// Which names stay
    #[arg(long, value_enum, value_name = "NAMES", default_value = "identifiers")]
    keep: Keep,
    /// Source code whose identifiers may stay: JavaScript or TypeScript, or Python (*.py); may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    source: Vec<PathBuf>,
    /// A long secret that gives equal replacements in several files [default: a random one, not
    /// kept]. Other users can see it in the list of processes; --key-file avoids this
    #[arg(long, value_name = "TEXT", conflicts_with = "key_file")]
    key: Option<String>,
    /// A file with that secret
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Accept several objects of the same id: all but the first get new ids above existing ones
    #[arg(long)]
    allow_duplicate_ids: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

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
                "heaplab: {}: heaplab has no parser to tell code from text in a part of this file; names found only there are redacted",
                path.display()
            );
        }
    }
    let key = key(args.key.as_deref(), args.key_file.as_deref())?;
    let redaction = Redaction { keep: args.keep, identifiers, key };
    let progress = (args.quiet, "redacting");
    let redacted = args.rewriting.write(&source, progress, false, |out, progress| {
        redact(&rows, redaction, out, progress).map(|(_, done)| done)
    })?;
    let told = json!({"strings": redacted.strings, "kept": redacted.kept});
    args.rewriting.tell("heaplab-snapshot-redact", &redacted.written, told)?;
    if !args.rewriting.json {
        let (strings, kept) = (number(redacted.strings as u64), number(redacted.kept as u64));
        eprintln!(
            "heaplab: {kept} of {strings} strings stay readable in some place, as names; all others are redacted everywhere"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A key from a text, or from the system's randomness.
fn key(text: Option<&str>, file: Option<&Path>) -> Result<Key> {
    let (secret, from) = match (text, file) {
        (Some(text), _) => (text.as_bytes().to_vec(), String::from("the key")),
        (None, Some(path)) => {
            let from = path.display().to_string();
            (std::fs::read(path).with_context(|| format!("cannot read {from}"))?, from)
        }
        (None, None) => {
            let mut random = [0; 32];
            let filled = rustix::rand::getrandom(&mut random, GetRandomFlags::empty())
                .context("no randomness for a key")?;
            ensure!(filled == random.len(), "no randomness for a key: {filled} bytes of 32");
            return Ok(Key::new(random));
        }
    };
    let (key, bytes) = Key::of_secret(&secret)
        .with_context(|| format!("{from} is empty: an empty key protects nothing"))?;
    if bytes < Key::SECRET_BYTES_MIN {
        eprintln!(
            "heaplab: {from} has {bytes} bytes, so others could guess it and test strings against it: use {} or more",
            Key::SECRET_BYTES_MIN
        );
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_key_that_nobody_gave_is_new_each_time() {
        let random = || super::key(None, None).unwrap();
        assert_ne!(random(), random());
    }
}
