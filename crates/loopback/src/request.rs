//! Reads one request, and refuses those that are not for this page.

use std::io::Read;
use std::time::Instant;

/// Bytes of a request's head. Browsers send some hundreds.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Header fields of a request.
const FIELDS_MAX: usize = 64;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The path behind the token, without its first slash: empty for the page itself.
    pub path: String,
    /// The query's names and values, decoded, in their order.
    pub query: Vec<(String, String)>,
}

impl Request {
    /// The first value of this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Why a request gets no answer of the page.
pub(crate) enum Refused {
    /// The client left, or asked nothing in time.
    Gone,
    /// A status and a sentence.
    With(u16, &'static str),
}

impl Request {
    /// Reads a request's head; the flag says whether the answer has a body (GET, not HEAD).
    pub(crate) fn read(
        from: &mut impl Read,
        port: u16,
        token: &str,
    ) -> Result<(Request, bool), Refused> {
        let head = read_head(from)?;
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        match parsed.parse(&head) {
            Ok(httparse::Status::Complete(_)) => {}
            _ => return Err(Refused::With(400, "this is no HTTP request")),
        }
        let host = parsed.headers.iter().find(|field| field.name.eq_ignore_ascii_case("host"));
        let host = host.map_or(&b""[..], |field| field.value);
        let names = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}"));
        if !names.iter().any(|name| name.as_bytes() == host) {
            return Err(Refused::With(403, "this server answers on its own address only"));
        }
        let has_body = match parsed.method {
            Some("GET") => true,
            Some("HEAD") => false,
            _ => return Err(Refused::With(405, "this server answers GET and HEAD only")),
        };
        let target = parsed.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = path.strip_prefix('/').unwrap_or_default();
        let (first, path) = path.split_once('/').unwrap_or((path, ""));
        if !is_same(first.as_bytes(), token.as_bytes()) {
            return Err(Refused::With(404, "there is nothing here: the address has a token"));
        }
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Ok((Request { path: path.to_owned(), query }, has_body))
    }
}

/// Reads up to the empty line behind the header fields.
fn read_head(from: &mut impl Read) -> Result<Vec<u8>, Refused> {
    let began = Instant::now();
    let mut head = Vec::new();
    let mut part = [0_u8; 2048];
    loop {
        // A client that sends a byte now and then is as good as gone.
        let read = from.read(&mut part).unwrap_or(0);
        if read == 0 || began.elapsed() > crate::PATIENCE {
            return Err(Refused::Gone);
        }
        let searched = head.len().saturating_sub(3);
        head.extend_from_slice(&part[..read]);
        if head[searched..].windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(head);
        }
        if head.len() > HEAD_BYTES_MAX {
            return Err(Refused::With(431, "the request's head is larger than 16 KiB"));
        }
    }
}

/// Compares in a time that does not tell how far two texts are equal.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Request, bool), u16> {
        Request::read(&mut text.as_bytes(), 80, "abc").map_err(|refused| match refused {
            Refused::Gone => 0,
            Refused::With(status, _) => status,
        })
    }

    #[test]
    fn a_request_has_its_path_and_query() {
        let (request, has_body) = read(
            "GET /abc/api/search?text=a%20b+c&limit=5&text=z HTTP/1.1\r\nHost: localhost:80\r\n\r\n",
        )
        .unwrap();
        assert_eq!((request.path.as_str(), has_body), ("api/search", true));
        assert_eq!((request.value("text"), request.value("limit")), (Some("a b c"), Some("5")));
        assert_eq!(request.value("none"), None);
        let (request, has_body) =
            read("HEAD /abc/ HTTP/1.1\r\nhost: 127.0.0.1:80\r\n\r\n").unwrap();
        assert_eq!((request, has_body), (Request::default(), false));
    }

    #[test]
    fn requests_for_others_are_refused() {
        let host = "Host: localhost:80\r\n\r\n";
        assert_eq!(read(&format!("GET / HTTP/1.1\r\n{host}")), Err(404));
        assert_eq!(read(&format!("GET /abd/ HTTP/1.1\r\n{host}")), Err(404));
        assert_eq!(read(&format!("GET /abcd/ HTTP/1.1\r\n{host}")), Err(404));
        assert_eq!(read("GET /abc/ HTTP/1.1\r\nHost: evil.example:80\r\n\r\n"), Err(403));
        assert_eq!(read("GET /abc/ HTTP/1.1\r\n\r\n"), Err(403));
        assert_eq!(read(&format!("POST /abc/ HTTP/1.1\r\n{host}")), Err(405));
        assert_eq!(read("hello\r\n\r\n"), Err(400));
        assert_eq!(read("GET /abc/ HTTP/1.1\r\nHost: local"), Err(0));
        assert_eq!(read(""), Err(0));
    }

    #[test]
    fn a_head_without_end_is_bounded() {
        let long = format!("GET /abc/ HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(read(&long), Err(431));
        let many = format!("GET /abc/ HTTP/1.1\r\n{}\r\n", "X: 1\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(read(&many), Err(400));
    }
}
