//! `heaplab record --ocaml`: an OCaml program that heaplab's recorder is linked into writes its
//! stream beside the bundle, which is then imported.
//!
//! The stream stays where it is when heaplab is killed, or finds it damaged: `heaplab import` reads
//! it.

use anyhow::{Context, Result, bail};
use heaplab_record::interrupts;
use heaplab_text::words::plural;
use heaplab_trace::bundle::{Bundle, BundleWriter};
use heaplab_trace::import::{self, Format, Options};
use heaplab_trace::tables::Ended;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What the recorder takes the stream's name from.
const VARIABLE: &str = "HEAPLAB_OCAML";
/// What it takes the words between two forced collections from.
const GRANULARITY_VARIABLE: &str = "HEAPLAB_OCAML_GRANULARITY";
const WORD_BYTES: u64 = 8;

/// Runs `command` and makes its stream a bundle at `output`.
/// The program collects after every `granularity_bytes` of new objects, if so many are named.
pub fn record(
    command: &[OsString],
    output: &Path,
    replace: bool,
    granularity_bytes: Option<u64>,
    json: bool,
) -> Result<ExitCode> {
    let Some((program, arguments)) = command.split_first() else { bail!("no program was named") };
    let stream = stream_of(output)?;
    if stream.exists() {
        bail!(
            "{}: a recording that was not finished lies here; `heaplab import` makes it a bundle, or remove it",
            stream.display()
        );
    }
    let mut started = Command::new(program);
    started.args(arguments).env(VARIABLE, &stream).env_remove(GRANULARITY_VARIABLE);
    if let Some(bytes) = granularity_bytes {
        started.env(GRANULARITY_VARIABLE, (bytes / WORD_BYTES).to_string());
    }
    // Ctrl-C is the program's; what it wrote until then is imported.
    // Before heaplab takes its signals: a child has the mask of its parent.
    let child = started.spawn();
    let mut child = child.with_context(|| format!("cannot start {}", program.display()))?;
    let (status, _) = interrupts::flagged(|_| child.wait());
    let status = status.context("waiting for the program")?;
    let Ok(file) = File::open(&stream) else {
        bail!(
            "{} wrote no recording ({status}): link heaplab's recorder into it (ocamlfind ocamlopt -package heaplab.auto -linkpkg ...; OCaml 4.11 to 4.14; docs/recording-ocaml.md)",
            program.display()
        );
    };
    let begin = if replace { BundleWriter::replace } else { BundleWriter::create };
    let mut writer = begin(output)?;
    let options = Options { name: stream.clone(), lenient: false };
    let mut imported =
        import::import(BufReader::new(file), Some(Format::Ocaml), &options, &mut writer)?;
    imported.meta.program =
        command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    if let Some(process) = imported.tables.processes.first_mut() {
        process.executable = program.to_string_lossy().into_owned();
        process.ended = match status.signal() {
            Some(signal) => Ended::Signalled(signal),
            None => Ended::Exited(status.code().unwrap_or(0)),
        };
        process.arguments = command.iter().map(|word| word.to_string_lossy().into()).collect();
    }
    if writer.is_empty() {
        bail!("{} allocated nothing in OCaml's heap; nothing was written", program.display());
    }
    writer.finish(&imported.tables, imported.meta)?;
    std::fs::remove_file(&stream)
        .with_context(|| format!("{}: cannot remove", stream.display()))?;
    say(&Bundle::open(output)?, output, json)?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Beside the bundle, by its whole path: the program may change its folder.
fn stream_of(output: &Path) -> Result<PathBuf> {
    let mut name = std::path::absolute(output)
        .with_context(|| format!("{}: cannot be a path", output.display()))?
        .into_os_string();
    name.push(".ocaml-stream");
    Ok(name.into())
}

fn say(bundle: &Bundle, output: &Path, json: bool) -> Result<()> {
    let meta = bundle.meta();
    if json {
        println!("{}", serde_json::to_string_pretty(meta)?)?;
        return Ok(());
    }
    println!(
        "{}: {}, {}; {}",
        output.display(),
        plural(meta.events, "event"),
        plural(meta.objects, "object"),
        meta.allocator
    )?;
    for loss in &meta.losses {
        println!("  {loss}")?;
    }
    if let Some(cut) = &meta.cut {
        eprintln!("heaplab: the recording was cut {cut}");
    }
    Ok(())
}
