//! Where an inspector listens: `ws://HOST:PORT/PATH`, `http://HOST:PORT`, `HOST:PORT`, or the port
//! of this machine.

use crate::CaptureError;
use std::fmt;

/// The port of Node's inspector if the address has no port.
pub(crate) const DEFAULT_PORT: u16 = 9229;

/// An address that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or a number, without the brackets of IPv6.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What follows, with its slash; empty where only a host was named.
    pub path: String,
}

impl Address {
    /// Reads an address as a user or an inspector writes it.
    ///
    /// # Errors
    /// The text is none, or of a scheme that is not spoken here.
    pub fn parse(text: &str) -> Result<Address, CaptureError> {
        let wrong = |why: &str| CaptureError::Address { text: text.into(), why: why.into() };
        if let Ok(port) = text.parse() {
            return Ok(Address { host: "127.0.0.1".into(), port, path: String::new() });
        }
        let rest = match text.split_once("://") {
            Some(("ws" | "http", rest)) => rest,
            Some(("wss" | "https", _)) => {
                return Err(wrong(
                    "encrypted connections are not spoken; use a tunnel such as ssh -L",
                ));
            }
            Some(_) => return Err(wrong("the scheme is neither ws nor http")),
            None => text,
        };
        let (host_port, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (host, port) = match host_port.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) =
                    bracketed.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
                (host, after.strip_prefix(':'))
            }
            None => host_port
                .split_once(':')
                .map_or((host_port, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(DEFAULT_PORT), |port| {
            port.parse().map_err(|_| wrong("the port is not a number from 1 to 65535"))
        })?;
        let odd = |text: &str| text.chars().any(|each| each.is_whitespace() || each.is_control());
        if host.is_empty() || odd(host) || odd(path) {
            return Err(wrong("it lacks a host, or has a space"));
        }
        Ok(Address { host: host.into(), port, path: path.into() })
    }

    /// `host:port`, as in a `Host:` header.
    pub fn host_port(&self) -> String {
        let host = &self.host;
        if host.contains(':') {
            format!("[{host}]:{}", self.port)
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}{}", self.host_port(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let read = |text: &str| {
            Address::parse(text).map(|address| (address.host, address.port, address.path)).ok()
        };
        let is = |host: &str, port, path: &str| Some((host.to_string(), port, path.to_string()));
        assert_eq!(read("ws://127.0.0.1:9229/5c3f-aa"), is("127.0.0.1", 9229, "/5c3f-aa"));
        assert_eq!(read("http://localhost:9222"), is("localhost", 9222, ""));
        assert_eq!(read("9222"), is("127.0.0.1", 9222, ""));
        assert_eq!(read("127.0.0.1"), is("127.0.0.1", 9229, ""));
        assert_eq!(read("ws://[::1]:1/x"), is("::1", 1, "/x"));
        for wrong in [
            "",
            "ws://",
            "wss://a/b",
            "ftp://a",
            "a:b",
            "a:99999",
            "[::1",
            "a b",
            "ws://a/\r\nX: y",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(Address::parse("ws://[::1]:1/x").unwrap().to_string(), "[::1]:1/x");
    }
}
