//! Files that appear whole or not at all, and `-` for standard output.

use crate::OutputError;
use crate::output::to_standard_output;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Permissions of a new file, less the umask.
const MODE: u32 = 0o666;
/// Permissions of a file with secrets.
const MODE_PRIVATE: u32 = 0o600;

/// Whether the file is there and holds something, but not `mark` in its first bytes: another
/// program's file, or a person's.
pub fn holds_other_than(file: &Path, mark: &[u8]) -> bool {
    const HEAD_BYTES: u64 = 4096;
    // A pipe is written to, and reading it would wait.
    if !fs::metadata(file).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut head = Vec::new();
    let is_read =
        File::open(file).is_ok_and(|there| there.take(HEAD_BYTES).read_to_end(&mut head).is_ok());
    is_read && !head.is_empty() && !head.windows(mark.len()).any(|window| window == mark)
}

/// Writes finished content, like [`write()`].
///
/// # Errors
/// As [`write()`].
pub fn write_bytes(path: &Path, is_binary: bool, bytes: &[u8]) -> Result<(), OutputError> {
    write(path, is_binary, |out| out.write_all(bytes).map_err(OutputError::StandardOutput))
}

/// Gives `write` a sink, and puts the result at `path`: standard output for `-`, else a file that
/// appears complete under its name and replaces an older one. If `write` fails, nothing is left
/// behind.
///
/// # Errors
/// `write` fails, the file cannot be written, or `is_binary` and standard output is a terminal.
pub fn write<E: From<OutputError>>(
    path: &Path,
    is_binary: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    write_with_mode(path, is_binary, MODE, write)
}

/// The same for secrets: a file is its owner's alone.
///
/// # Errors
/// As [`write()`].
pub fn write_private<E: From<OutputError>>(
    path: &Path,
    is_binary: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    write_with_mode(path, is_binary, MODE_PRIVATE, write)
}

fn write_with_mode<E: From<OutputError>>(
    path: &Path,
    is_binary: bool,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    if path == Path::new("-") {
        let out = io::stdout().lock();
        if is_binary && out.is_terminal() {
            return Err(OutputError::BinaryOnTerminal.into());
        }
        return filled(out, write).map_err(|error| error.named(to_standard_output));
    }
    let cannot =
        |action| move |source| OutputError::File { action, path: path.to_path_buf(), source };
    // Writes in place if the path is not a regular file (/dev/null, a pipe): such a name must not
    // be replaced.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let file = File::create(path).map_err(cannot("open"))?;
        return filled(file, write).map_err(|error| error.named(cannot("write")));
    }
    if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(OutputError::Folder(path.to_path_buf()).into());
    }
    let Some(name) = path.file_name() else {
        return Err(OutputError::NoFileName(path.to_path_buf()).into());
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".unfinished-{}", std::process::id()));
    let hidden = path.with_file_name(hidden);
    let written = new_file(&hidden, mode)
        .map_err(Unwritten::Output)
        .and_then(|file| {
            let kept = file.try_clone().map_err(Unwritten::Output)?;
            filled(file, write)?;
            kept.sync_all().map_err(Unwritten::Output)
        })
        .map_err(|error| error.named(cannot("write")))
        .and_then(|()| Ok(fs::rename(&hidden, path).map_err(cannot("give its name to"))?));
    if written.is_err() {
        // The returned error matters more than one about the remains.
        let _ = fs::remove_file(&hidden);
    }
    written
}

/// A new file. One that somebody else has put there would keep its mode, or lead elsewhere.
fn new_file(path: &Path, mode: u32) -> io::Result<File> {
    // Fails if nothing is there, which is fine.
    let _ = fs::remove_file(path);
    File::options().write(true).create_new(true).mode(mode).open(path)
}

/// Why a file was not filled: it refuses to be written, or its content cannot be made.
enum Unwritten<E> {
    Output(io::Error),
    Content(E),
}

impl<E: From<OutputError>> Unwritten<E> {
    fn named(self, name: impl FnOnce(io::Error) -> OutputError) -> E {
        match self {
            Unwritten::Output(error) => name(error).into(),
            Unwritten::Content(error) => error,
        }
    }
}

/// Lets `write` write to `out`.
fn filled<E>(
    out: impl Write,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), Unwritten<E>> {
    let mut out = Noting { out: BufWriter::new(out), failure: None };
    let written = write(&mut out).map_err(Unwritten::Content);
    let flushed = if written.is_ok() { out.flush() } else { Ok(()) };
    // Dropping a buffer would try once more to write it.
    let _ = out.out.into_parts();
    match (out.failure, flushed) {
        (Some(failure), _) | (None, Err(failure)) => Err(Unwritten::Output(failure)),
        (None, Ok(())) => written,
    }
}

/// A writer that keeps its first failure, even if its user ignores it.
struct Noting<W> {
    out: W,
    failure: Option<io::Error>,
}

impl<W> Noting<W> {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            if error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            let again = match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => error.kind().into(),
            };
            self.failure.get_or_insert(error);
            again
        })
    }
}

impl<W: Write> Write for Noting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.note(written)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.out.write_all(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;
    use std::os::unix::fs::PermissionsExt;

    type Any = Box<dyn Error>;

    fn whole(error: Any) -> String {
        let source = error.source().map(|source| format!(": {source}"));
        format!("{error}{}", source.unwrap_or_default())
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().to_owned();
        let path = folder.join("a.json");
        write_bytes(&path, false, b"first").unwrap();
        let failed = write::<Any>(&path, false, |out| {
            out.write_all(b"second")?;
            Err("it broke".into())
        });
        assert_eq!(failed.unwrap_err().to_string(), "it broke");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left behind");
        write_bytes(Path::new("/dev/null"), true, b"gone").unwrap();
        for name in [folder.clone(), folder.join(""), folder.join("new/")] {
            let error = write_bytes(&name, false, b"").unwrap_err().to_string();
            assert!(
                error.contains(&name.display().to_string()) && error.contains("name a file in it"),
                "{error}"
            );
        }
        assert!(folder.is_dir());
    }

    #[test]
    fn the_file_that_cannot_be_written_is_named() {
        for bytes in [&[b' '; 1 << 20][..], b"fits the buffer"] {
            let full = write::<Any>(Path::new("/dev/full"), false, |out| Ok(out.write_all(bytes)?));
            let full = whole(full.unwrap_err());
            assert!(full.starts_with("cannot write /dev/full: No space left"), "{full}");
        }
        let missing = write::<Any>(Path::new("/nowhere/at/all"), false, |_| Ok(()));
        let missing = whole(missing.unwrap_err());
        assert!(missing.starts_with("cannot write /nowhere/at/all: No such file"), "{missing}");
        // An input that cannot be read is no fault of the output.
        let input = io::Error::from(io::ErrorKind::NotFound);
        let read = write::<Any>(Path::new("/dev/null"), false, |_| Err(input.into()));
        assert!(!whole(read.unwrap_err()).contains("cannot write"));
    }

    #[test]
    fn what_is_private_goes_into_no_file_that_somebody_put_there() {
        let folder = tempfile::tempdir().unwrap();
        let (path, theirs) = (folder.path().join("a"), folder.path().join("theirs"));
        let hidden = folder.path().join(format!(".a.unfinished-{}", std::process::id()));
        let is_private = || fs::metadata(&path).unwrap().permissions().mode() & 0o077 == 0;
        let write_secret =
            || write_private::<Any>(&path, true, |out| Ok(out.write_all(b"secret")?)).unwrap();
        fs::write(&theirs, "").unwrap();
        std::os::unix::fs::symlink(&theirs, &hidden).unwrap();
        write_secret();
        assert!(
            fs::read(&theirs).unwrap().is_empty()
                && fs::read(&path).unwrap() == b"secret"
                && is_private()
        );
        fs::write(&hidden, "").unwrap();
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o644)).unwrap();
        write_secret();
        assert!(is_private());
    }
}
