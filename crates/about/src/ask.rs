//! Asks a running program.
//!
//! Trust goes both ways: the program answers its own user alone, and its user asks only a socket
//! behind which this very process listens. Whatever is answered is bounded before it is read.

use crate::saved::BYTES_MAX;
use crate::{AboutError, Saved};
use heaplab_reporter::{AT, PRESSURE, REPORT, peer, socket_path};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Asks process `pid` for its reports.
///
/// # Errors
/// The process is not there, is somebody else's, has no reporters, ends or takes too long.
pub fn report(pid: u32, patience: Duration) -> Result<Saved, AboutError> {
    ask(pid, REPORT, patience)
}

/// Asks process `pid` for its reports at `mark`, which the program has set.
///
/// # Errors
/// As [`report`]; [`AboutError::Refused`] names the program's marks if none has this name.
pub fn at(pid: u32, mark: &str, patience: Duration) -> Result<Saved, AboutError> {
    ask(pid, &format!("{AT}{}", mark.replace(char::is_control, " ")), patience)
}

/// Lets process `pid` drop what it can make again, and asks for its reports then.
///
/// # Errors
/// As [`report`].
pub fn pressure(pid: u32, patience: Duration) -> Result<Saved, AboutError> {
    ask(pid, PRESSURE, patience)
}

/// The process that `text` names, as an asker writes it; `None`: the text is no number.
///
/// # Errors
/// The number is larger than any process's.
pub fn number(text: &str) -> Result<Option<u32>, AboutError> {
    if text.is_empty() || !text.bytes().all(|letter| letter.is_ascii_digit()) {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| AboutError::TooLarge(text.into()))
}

/// The process that `text` names.
///
/// # Errors
/// The text is no process's number.
pub fn process(text: &str) -> Result<u32, AboutError> {
    number(text)?.ok_or_else(|| AboutError::NoNumber(text.into()))
}

fn ask(pid: u32, question: &str, patience: Duration) -> Result<Saved, AboutError> {
    let own = own_user();
    let process = PathBuf::from(format!("/proc/{pid}"));
    let owner = std::fs::metadata(&process).map_err(|_| AboutError::NoProcess(pid))?.uid();
    let failed = |source| AboutError::Asking { pid, source };
    let path = socket_path(&root_of(&process), owner, number_within(&process).unwrap_or(pid));
    let mut connection = UnixStream::connect(path).map_err(|error| match error.kind() {
        _ if own != owner => AboutError::OfAnotherUser { pid, owner },
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => AboutError::NoReporters(pid),
        ErrorKind::PermissionDenied => AboutError::NotPermitted(pid),
        _ => failed(error),
    })?;
    if own != owner {
        return Err(AboutError::OfAnotherUser { pid, owner });
    }
    let listener = peer(&connection).map_err(failed)?;
    if listener.user != owner || listener.pid != pid {
        return Err(AboutError::Impostor { pid, listener: listener.pid, user: listener.user });
    }
    let until = Instant::now() + patience;
    connection.set_write_timeout(Some(patience)).map_err(failed)?;
    connection.write_all(format!("{question}\n").as_bytes()).map_err(failed)?;
    let answer = read_until(&mut connection, until).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => AboutError::TimeOut { pid, after: patience },
        ErrorKind::FileTooLarge => AboutError::TooLong(BYTES_MAX),
        ErrorKind::ConnectionReset => AboutError::Died { pid, bytes: 0 },
        _ => failed(error),
    })?;
    if let Ok(Refusal { refused }) = serde_json::from_slice(&answer) {
        return Err(AboutError::Refused { pid, why: refused });
    }
    Saved::read(&answer).map_err(|error| match error {
        AboutError::Json(json) if json.is_eof() => AboutError::Died { pid, bytes: answer.len() },
        other => other,
    })
}

#[derive(serde::Deserialize)]
struct Refusal {
    refused: String,
}

/// All that comes until then.
fn read_until(connection: &mut UnixStream, until: Instant) -> std::io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut piece) {
            Ok(0) => return Ok(answer),
            Ok(bytes) => answer.extend_from_slice(&piece[..bytes]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Whoever dies with our question unread resets the connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset && !answer.is_empty() => {
                return Ok(answer);
            }
            Err(error) => return Err(error),
        }
        if answer.len() as u64 > BYTES_MAX {
            return Err(ErrorKind::FileTooLarge.into());
        }
    }
}

fn own_user() -> u32 {
    std::fs::metadata("/proc/self").map_or(u32::MAX, |found| found.uid())
}

/// The root folder as the process sees it: a container's is another one.
fn root_of(process: &Path) -> PathBuf {
    let namespace = |process: &Path| std::fs::read_link(process.join("ns/mnt")).ok();
    let is_ours = namespace(process) == namespace(Path::new("/proc/self"));
    if is_ours { PathBuf::from("/") } else { process.join("root") }
}

/// The process's number as it sees it itself.
fn number_within(process: &Path) -> Option<u32> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{number, process};

    #[test]
    fn a_number_is_a_process_and_no_other_text_is() {
        assert_eq!(number("4711").unwrap(), Some(4711));
        for file in ["", "+4711", "-1", "./4711", "4711.json", "\u{664}"] {
            assert_eq!(number(file).unwrap(), None, "{file}");
        }
        let refused = |text: &str| process(text).unwrap_err().to_string();
        assert_eq!(
            refused("4294967296"),
            "4294967296 is larger than the number of any process; ./4294967296 names a file"
        );
        assert_eq!(refused("app.json"), "app.json: expected the number of a running process");
    }
}
