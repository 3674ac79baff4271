//! One GET from an inspector's small HTTP server, bounded in length and time.

use crate::{Address, CaptureError, Options};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;

/// The longest answer that is read: a browser lists some hundred pages in this.
const ANSWER_BYTES_LIMIT: usize = 16 << 20;
/// The longest head of an answer.
const HEAD_BYTES_LIMIT: usize = 16 << 10;
const HEADERS_LIMIT: usize = 64;

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

/// The body of `path` at `address`. The whole body must arrive within [`Options::connect`].
pub fn get(address: &Address, path: &str, options: &Options) -> Result<Vec<u8>, CaptureError> {
    let no_inspector =
        |what: String| CaptureError::NoInspector { address: address.host_port(), what };
    let mut stream = connect(address, options)?;
    stream
        .set_read_timeout(Some(options.connect))
        .map_err(|error| no_inspector(error.to_string()))?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
        address.host_port()
    );
    stream.write_all(request.as_bytes()).map_err(|error| no_inspector(error.to_string()))?;
    read_answer(stream, Instant::now() + options.connect).map_err(no_inspector)
}

/// What stands before a body.
struct Head {
    /// "404 Not Found".
    status: String,
    /// The length that the header `Content-Length` gives.
    length: Option<usize>,
    /// Where the body begins.
    bytes: usize,
}

/// Status, headers and body; the body ends where `Content-Length` says, or with the connection.
fn read_answer(mut stream: impl Read, until: Instant) -> Result<Vec<u8>, String> {
    let mut answer = Vec::new();
    let mut head = None;
    let mut buffer = [0; 8192];
    loop {
        let wanted = head.as_ref().and_then(|head: &Head| head.length?.checked_add(head.bytes));
        if wanted.is_some_and(|wanted| answer.len() >= wanted) {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("it did not finish its answer ({error})")),
        }
        if head.is_none() {
            head = read_head(&answer)?;
        }
        if answer.len() > if head.is_some() { ANSWER_BYTES_LIMIT } else { HEAD_BYTES_LIMIT } {
            return Err(format!("its answer has more than {} bytes", answer.len()));
        }
        if Instant::now() > until {
            return Err("it did not finish its answer in time".into());
        }
    }
    let head =
        head.ok_or_else(|| format!("it does not answer as an HTTP server ({})", excerpt(&answer)))?;
    if !head.status.starts_with("200") {
        return Err(format!("it answers {:?}", head.status));
    }
    let mut body = answer.split_off(head.bytes);
    let length = head.length.unwrap_or(body.len());
    if body.len() < length {
        return Err(format!("its answer ends after {} of {length} bytes", body.len()));
    }
    body.truncate(length);
    Ok(body)
}

/// The head; `None` until all of the head has arrived.
fn read_head(answer: &[u8]) -> Result<Option<Head>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_LIMIT];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(answer);
    match parsed.map_err(|error| {
        format!("it does not answer as an HTTP server ({error}: {})", excerpt(answer))
    })? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(bytes) => {
            let status = format!(
                "{} {}",
                response.code.unwrap_or_default(),
                response.reason.unwrap_or_default()
            );
            let length = response
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case("content-length"));
            let length = length
                .and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse().ok());
            Ok(Some(Head { status, length, bytes }))
        }
    }
}

/// The beginning of what came, printable.
fn excerpt(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_where_they_say() {
        let until = Instant::now() + std::time::Duration::from_secs(60);
        let read = |text: &str| {
            read_answer(text.as_bytes(), until).map(|body| String::from_utf8(body).unwrap())
        };
        assert_eq!(read("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokmore"), Ok("ok".into()));
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\nall of it"), Ok("all of it".into()));
        assert!(read("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().contains("404"));
        assert!(
            read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut").unwrap_err().contains("3 of 9")
        );
        assert!(read("SSH-2.0-OpenSSH\r\n").unwrap_err().contains("SSH-2.0"));
        assert!(
            read(&format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(20_000)))
                .unwrap_err()
                .contains("more than")
        );
        let late = read_answer(
            &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..],
            Instant::now() - std::time::Duration::from_secs(1),
        );
        assert!(late.unwrap_err().contains("in time"));
    }
}
