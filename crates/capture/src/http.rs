//! One GET from an inspector's small HTTP server, bounded in length and time.

use crate::{Address, CaptureError, Options};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The longest answer that is read: a browser lists some hundred pages in this.
const ANSWER_BYTES_LIMIT: u64 = 16 << 20;
/// How long an HTTP server may take over an answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// A connection to `address`.
pub fn connect(address: &Address, options: &Options) -> Result<TcpStream, CaptureError> {
    let failed = |source| CaptureError::Connect { address: address.host_port(), source };
    let places = (address.host.as_str(), address.port).to_socket_addrs().map_err(failed)?;
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
    for place in places {
        match TcpStream::connect_timeout(&place, options.connect) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// The body of `path` at `address`.
pub fn get(address: &Address, path: &str, options: &Options) -> Result<Vec<u8>, CaptureError> {
    let no_inspector = |what: String| CaptureError::NoInspector { address: address.host_port(), what };
    let mut stream = connect(address, options)?;
    stream.set_read_timeout(Some(ANSWER_WAIT)).map_err(|error| no_inspector(error.to_string()))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nConnection: close\r\n\r\n", address.host_port());
    stream.write_all(request.as_bytes()).map_err(|error| no_inspector(error.to_string()))?;
    read_answer(stream.take(ANSWER_BYTES_LIMIT)).map_err(no_inspector)
}

/// Status, headers and body; the body ends where `Content-Length` says, or with the connection.
fn read_answer(mut stream: impl Read) -> Result<Vec<u8>, String> {
    let mut answer = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        if let Some((head, body)) = split(&answer)
            && header(head, "content-length").and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| body.len() >= length)
        {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
            Err(error) => return Err(format!("it did not finish its answer ({error})")),
        }
    }
    let (head, body) = split(&answer).ok_or_else(|| format!("it does not answer as an HTTP server ({})", excerpt(&answer)))?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("it answers {status:?}"));
    }
    let length = header(head, "content-length").and_then(|length| length.parse::<usize>().ok()).unwrap_or(body.len());
    if body.len() < length {
        return Err(format!("its answer ends after {} of {length} bytes", body.len()));
    }
    Ok(body[..length].to_vec())
}

/// The head as text and the body behind the empty line.
pub fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]))
}

/// The value of a header, whatever its case.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// The beginning of what came, printable.
pub fn excerpt(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_where_they_say() {
        let read = |text: &str| read_answer(text.as_bytes()).map(|body| String::from_utf8(body).unwrap());
        assert_eq!(read("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokmore"), Ok("ok".into()));
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\nall of it"), Ok("all of it".into()));
        assert!(read("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().contains("404"));
        assert!(read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut").unwrap_err().contains("3 of 9"));
        assert!(read("SSH-2.0-OpenSSH\r\n").unwrap_err().contains("SSH-2.0"));
    }
}
