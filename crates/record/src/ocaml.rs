//! Recordings of an OCaml program that heaplab's recorder is linked into (`ocaml/`): the program
//! writes its stream beside the bundle, which is then imported.
//!
//! The stream stays where it is when heaplab is killed, or finds it damaged: `heaplab import` reads
//! it.

use crate::error::RecordError;
use crate::{interrupts, spawn};
use heaplab_trace::bundle::{Bundle, BundleWriter};
use heaplab_trace::import::{self, Format};
use heaplab_trace::tables::Ended;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The recorder reads the stream's name from this variable.
const VARIABLE: &str = "HEAPLAB_OCAML";
/// And the words between two forced collections from this one.
const GRANULARITY_VARIABLE: &str = "HEAPLAB_OCAML_GRANULARITY";
const WORD_BYTES: u64 = 8;

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct OcamlOptions {
    /// The command line: the program, then its arguments.
    pub command: Vec<OsString>,
    /// The bundle.
    pub output: PathBuf,
    /// Replace a bundle of that name once the new one is whole.
    pub replace: bool,
    /// The program collects after every so many bytes of new objects; `None`: when it does by
    /// itself.
    pub granularity_bytes: Option<u64>,
}

/// The result of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended.
    pub status: ExitStatus,
    /// The bundle.
    pub bundle: Bundle,
}

impl Recorded {
    /// The program's exit code; 128 + N if signal N ended it.
    pub fn exit_code(&self) -> u8 {
        spawn::exit_code(self.status)
    }
}

/// Runs the program and makes its stream a bundle.
///
/// # Errors
/// The program cannot be started, is not linked with the recorder, or allocates nothing; a stream
/// lies there already; the stream is damaged or the bundle cannot be written: the stream stays.
pub fn record(options: &OcamlOptions) -> Result<Recorded, RecordError> {
    let program = spawn::located(&options.command)?;
    let name = &options.command[0];
    let stream = stream_of(&options.output)?;
    if stream.exists() {
        return Err(RecordError::StreamExists(stream));
    }
    let mut started = Command::new(name);
    started.args(&options.command[1..]).env(VARIABLE, &stream).env_remove(GRANULARITY_VARIABLE);
    if let Some(bytes) = options.granularity_bytes {
        started.env(GRANULARITY_VARIABLE, (bytes / WORD_BYTES).to_string());
    }
    // Before heaplab takes its signals: a child has the mask of its parent. Ctrl-C is the
    // program's; what it wrote until then is imported.
    let mut child = started.spawn().map_err(RecordError::io("cannot start", &program))?;
    let (status, _) = interrupts::flagged(|_| child.wait());
    let status = status.map_err(RecordError::io("cannot wait for", &program))?;
    let Ok(file) = File::open(&stream) else {
        return Err(RecordError::NotLinked { program, status });
    };
    bundle(options, &program, &stream, file, status).map_err(|reason| RecordError::StreamKept {
        stream: stream.clone(),
        reason: format!("{reason}"),
    })?;
    std::fs::remove_file(&stream).map_err(RecordError::io("cannot remove", &stream))?;
    Ok(Recorded { status, bundle: Bundle::open(&options.output)? })
}

/// Makes the stream of a program that has ended a bundle.
fn bundle(
    options: &OcamlOptions,
    program: &Path,
    stream: &Path,
    file: File,
    status: ExitStatus,
) -> Result<(), RecordError> {
    let name = &options.command[0];
    let begin = if options.replace { BundleWriter::replace } else { BundleWriter::create };
    let mut writer = begin(&options.output)?;
    let of_stream = import::ImportOptions { name: stream.to_owned(), lenient: false };
    let mut imported =
        import::import(BufReader::new(file), Some(Format::Ocaml), &of_stream, &mut writer)?;
    let words = spawn::shown(&options.command);
    imported.meta.program = words.join(" ");
    if let Some(process) = imported.tables.processes.first_mut() {
        process.executable = name.to_string_lossy().into_owned();
        process.ended = match status.signal() {
            Some(signal) => Ended::Signalled(signal),
            None => Ended::Exited(status.code().unwrap_or(0)),
        };
        process.arguments = words;
    }
    if writer.is_empty() {
        let what = format!("{} allocated nothing in OCaml's heap", program.display());
        return Err(RecordError::Nothing(what));
    }
    Ok(writer.finish(&imported.tables, imported.meta)?)
}

/// Beside the bundle, by its whole path: the program may change its folder.
fn stream_of(output: &Path) -> Result<PathBuf, RecordError> {
    let whole = std::path::absolute(output).map_err(RecordError::io("cannot find", output))?;
    let mut name = whole.into_os_string();
    name.push(".ocaml-stream");
    Ok(name.into())
}
