//! Files that appear whole or not at all, `-` for standard output, and printing to readers that may
//! have gone.
//!
//! The standard library's `println!` and `eprintln!` panic when the reader of a pipe has seen
//! enough (`| head`). The macros here take their place in the whole program: [`println!`] and
//! [`print!`] give a `Result`, [`eprintln!`] gives up in silence.

use anyhow::{Context, Result, bail};
use std::{
    fmt,
    fs::{self, File},
    io::{self, BufWriter, IsTerminal, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Standard output's reader has gone. It has seen what it wanted to see, so that this ends a
/// command and is no failure of it.
#[derive(Debug)]
pub struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("nobody reads standard output any more")
    }
}

impl std::error::Error for ReaderGone {}

/// What was asked for is wrong: a word that heaplab does not know, or a name (of a process, a
/// moment, a class) that is not in the file it was asked of. Asking differently helps, whereas a
/// failure would happen again. Exit code 2.
#[derive(Debug)]
pub struct Misasked(pub String);

impl fmt::Display for Misasked {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Misasked {}

/// Returns [`Misasked`] with these words.
macro_rules! misasked {
    ($($text:tt)*) => { return Err($crate::output::Misasked(format!($($text)*)).into()) };
}

macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

macro_rules! println {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::note(format_args!($($text)*)) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::note(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to standard output.
///
/// # Errors
/// [`ReaderGone`], or standard output cannot be written.
pub fn print(text: fmt::Arguments) -> Result<()> {
    let mut out = io::stdout().lock();
    written(out.write_fmt(text).and_then(|()| out.flush()))
}

/// Gives `write` standard output, for what is too large to be made before it is written.
///
/// # Errors
/// [`ReaderGone`], or standard output cannot be written.
pub fn printed(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    written(write(&mut out).and_then(|()| out.flush()))
}

/// Writes to standard error, where one still reads it. A person's lines fit the terminal; into a
/// file or a pipe they go whole, unless `COLUMNS` asks otherwise.
pub fn note(text: fmt::Arguments) {
    let mut out = io::stderr().lock();
    let _ = match crate::terminal::error_width() {
        Some(width) => out.write_all(fitted(&text.to_string(), width).as_bytes()),
        None => out.write_fmt(text),
    };
}

/// Every line that is too long is broken, and goes on as far in as it began.
fn fitted(text: &str, width: usize) -> String {
    let line = |line: &str| {
        if line.chars().count() <= width {
            return line.to_string();
        }
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        let lines = heaplab_text::lines::wrap(words, width.saturating_sub(indent.len()));
        lines.iter().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// What became of writing to standard output.
fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        other => other.context("cannot write to standard output"),
    }
}

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

/// Gives `write` a place to write to, and puts what it wrote where `path` says: standard output for
/// `-`, else a file that appears under its name when it is complete and replaces what was there.
/// Where `write` fails, nothing is left behind.
///
/// # Errors
/// `write` fails, the file cannot be written, or `is_binary` and standard output is a terminal.
pub fn write(
    path: &Path,
    is_binary: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    write_with_mode(path, is_binary, MODE, write)
}

/// The same for what has secrets in it: a file is its owner's alone.
///
/// # Errors
/// As [`write()`].
pub fn write_private(
    path: &Path,
    is_binary: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    write_with_mode(path, is_binary, 0o600, write)
}

/// What a new file has, less the umask.
const MODE: u32 = 0o666;

fn write_with_mode(
    path: &Path,
    is_binary: bool,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    if path == Path::new("-") {
        let out = io::stdout().lock();
        if is_binary && out.is_terminal() {
            misasked!(
                "standard output is a terminal and this format is binary: write to a file with -o FILE, or into a pipe"
            );
        }
        let mut out = BufWriter::new(out);
        return match write(&mut out) {
            Err(error) if has_lost_its_reader(&error) => Err(ReaderGone.into()),
            Err(error) => Err(error),
            Ok(()) => written(out.flush()),
        };
    }
    // Written in place where that is no regular file (/dev/null, a pipe): such a name must not be
    // replaced.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let mut out = BufWriter::new(
            File::create(path).with_context(|| format!("cannot open {}", path.display()))?,
        );
        let written =
            write(&mut out).and_then(|()| Ok(out.flush()?)).map_err(|error| named(error, path));
        if written.is_err() {
            // What it holds still would be tried again on the way out.
            let _ = out.into_parts();
        }
        return written;
    }
    if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        bail!(
            "{} is the name of a folder, and a file is to be written: name a file in it",
            path.display()
        );
    }
    let name = path
        .file_name()
        .with_context(|| format!("{} is not the name of a file", path.display()))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".unfinished-{}", std::process::id()));
    let hidden = path.with_file_name(hidden);
    let written =
        write_file(&hidden, mode, write).map_err(|error| named(error, path)).and_then(|()| {
            fs::rename(&hidden, path)
                .with_context(|| format!("cannot give {} its name", path.display()))
        });
    if written.is_err() {
        // The error that is returned says more than one about the remains.
        let _ = fs::remove_file(&hidden);
    }
    written
}

/// The error with the name of the file, where it is one of writing it and not of what was to be
/// written.
fn named(error: anyhow::Error, path: &Path) -> anyhow::Error {
    if error.chain().any(|cause| cause.is::<io::Error>()) {
        error.context(format!("cannot write {}", path.display()))
    } else {
        error
    }
}

/// Whether an error of a writer to standard output comes from a reader that has gone.
fn has_lost_its_reader(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

fn write_file(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    // What somebody else may have put there would keep its mode, or lead elsewhere. Where nothing
    // is, that fails, as it should.
    let _ = fs::remove_file(path);
    let file = File::options().write(true).create_new(true).mode(mode).open(path);
    let mut out = BufWriter::new(file?);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(file.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().to_owned();
        let path = folder.join("a.json");
        write(&path, false, |out| Ok(out.write_all(b"first")?)).unwrap();
        let failed = write(&path, false, |out| {
            out.write_all(b"second")?;
            bail!("it broke")
        });
        assert_eq!(failed.unwrap_err().to_string(), "it broke");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left behind");
        write(Path::new("/dev/null"), true, |out| Ok(out.write_all(b"gone")?)).unwrap();
        for name in [folder.clone(), folder.join(""), folder.join("new/")] {
            let error = write(&name, false, |_| Ok(())).unwrap_err().to_string();
            assert!(
                error.contains(&name.display().to_string()) && error.contains("name a file in it"),
                "{error}"
            );
        }
        assert!(folder.is_dir());
    }

    #[test]
    fn long_lines_are_broken_and_indented_as_they_began() {
        assert_eq!(
            fitted("heaplab: one two three\n  four five six\n", 13),
            "heaplab: one\ntwo three\n  four five\n  six\n"
        );
        assert_eq!(fitted("short  as it is\n", 40), "short  as it is\n");
    }

    #[test]
    fn a_full_disk_is_said_of_the_file_it_is_said_of() {
        let full = write(Path::new("/dev/full"), false, |out| Ok(out.write_all(&[b' '; 1 << 20])?))
            .unwrap_err();
        assert!(
            format!("{full:#}").starts_with("cannot write /dev/full: No space left"),
            "{full:#}"
        );
        let small =
            write(Path::new("/dev/full"), false, |out| Ok(out.write_all(b"fits the buffer")?))
                .unwrap_err();
        assert!(
            format!("{small:#}").starts_with("cannot write /dev/full: No space left"),
            "{small:#}"
        );
        let missing = write(Path::new("/nowhere/at/all"), false, |_| Ok(())).unwrap_err();
        assert!(
            format!("{missing:#}").starts_with("cannot write /nowhere/at/all: No such file"),
            "{missing:#}"
        );
    }

    #[test]
    fn what_is_private_goes_into_no_file_that_somebody_put_there() {
        let folder = tempfile::tempdir().unwrap();
        let (path, theirs) = (folder.path().join("a"), folder.path().join("theirs"));
        let hidden = folder.path().join(format!(".a.unfinished-{}", std::process::id()));
        let is_private = || fs::metadata(&path).unwrap().permissions().mode() & 0o077 == 0;
        fs::write(&theirs, "").unwrap();
        std::os::unix::fs::symlink(&theirs, &hidden).unwrap();
        write_private(&path, true, |out| Ok(out.write_all(b"secret")?)).unwrap();
        assert!(
            fs::read(&theirs).unwrap().is_empty()
                && fs::read(&path).unwrap() == b"secret"
                && is_private()
        );
        fs::write(&hidden, "").unwrap();
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o644)).unwrap();
        write_private(&path, true, |out| Ok(out.write_all(b"secret")?)).unwrap();
        assert!(is_private());
    }
}
