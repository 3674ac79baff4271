//! The client's side of a WebSocket, as far as an inspector needs it: commands go out as texts,
//! texts come back, pings are answered.
//!
//! The protocol (RFC 6455) is the crate tungstenite's; here are the bounds of length and time, and
//! its errors in this crate's words: what matters to a user is whether the target is gone, silent,
//! or something else than an inspector.

use crate::{Address, CaptureError, Options, http};
use std::io;
use std::net::TcpStream;
use std::time::Duration;
use tungstenite::error::{Error, ProtocolError};
use tungstenite::handshake::client::{Request, generate_key};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{HandshakeError, Message, Utf8Bytes};

/// The longest accepted message. V8 sends chunks of 100 KB, at most 600 KB when escaped. Memory
/// holds a message up to three times: the received bytes, their text, and the chunk.
pub const MESSAGE_BYTES_LIMIT: usize = 16 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// An open connection.
#[derive(Debug)]
pub(crate) struct WebSocket(tungstenite::WebSocket<TcpStream>);

/// Why nothing was received.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The other side closed, or its process is gone.
    Closed,
    /// Nothing came within the time.
    Silent,
    /// The network failed.
    Failed(io::Error),
    /// What came is no WebSocket.
    Wrong(String),
}

impl From<Error> for Lost {
    fn from(error: Error) -> Lost {
        match error {
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(
                ProtocolError::ResetWithoutClosingHandshake | ProtocolError::SendAfterClosing,
            ) => Lost::Closed,
            Error::Io(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Lost::Silent,
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionAborted => Lost::Closed,
                _ => Lost::Failed(error),
            },
            Error::Capacity(_) => {
                Lost::Wrong(format!("a message of more than {MESSAGE_BYTES_LIMIT} bytes"))
            }
            other => Lost::Wrong(other.to_string()),
        }
    }
}

impl WebSocket {
    /// Connects to `address` and opens a WebSocket at its path.
    ///
    /// # Errors
    /// Nothing listens at the address, or the listener is not a WebSocket.
    pub(crate) fn open(address: &Address, options: &Options) -> Result<WebSocket, CaptureError> {
        let wrong = |what: String| CaptureError::NoInspector { address: address.to_string(), what };
        let request = request(address)
            .map_err(|error| wrong(format!("it cannot be asked for such a path ({error})")))?;
        let stream = http::connect(address, options)?;
        let timed = stream
            .set_read_timeout(Some(options.connect))
            .and_then(|()| stream.set_write_timeout(Some(options.connect)));
        timed.map_err(|error| wrong(error.to_string()))?;
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER_BYTES)
            .max_message_size(Some(MESSAGE_BYTES_LIMIT))
            .max_frame_size(Some(MESSAGE_BYTES_LIMIT));
        let (socket, _) = tungstenite::client::client_with_config(request, stream, Some(config))
            .map_err(|error| {
                wrong(match error {
                    HandshakeError::Interrupted(_) => format!(
                        "it does not answer as a WebSocket within {} s",
                        options.connect.as_secs()
                    ),
                    HandshakeError::Failure(error) => refusal(&error),
                })
            })?;
        Ok(WebSocket(socket))
    }

    /// Sends a text.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) fn send(&mut self, text: String) -> Result<(), Lost> {
        Ok(self.0.send(Message::text(text))?)
    }

    /// The next text message, within that time.
    ///
    /// # Errors
    /// The connection is gone, silent for too long, or what comes is no WebSocket.
    pub(crate) fn receive(&mut self, patience: Duration) -> Result<Utf8Bytes, Lost> {
        self.0.get_ref().set_read_timeout(Some(patience)).map_err(Lost::Failed)?;
        loop {
            match self.0.read() {
                Ok(Message::Text(text)) => return Ok(text),
                Ok(Message::Close(_)) => return Err(Lost::Closed),
                Ok(Message::Binary(_)) => return Err(Lost::Wrong("a message is binary".into())),
                // The answer to a ping goes out with the next read.
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends the closing message; ignores a failure.
    pub(crate) fn close(&mut self) {
        let _ = self.0.close(None);
    }
}

/// The opening request. The host stands in its header as the user wrote it, IPv6 in brackets.
fn request(address: &Address) -> Result<Request, tungstenite::http::Error> {
    let path = if address.path.is_empty() { "/" } else { &address.path };
    Request::builder()
        .uri(format!("ws://target{path}"))
        .header("Host", address.host_port())
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key())
        .body(())
}

/// Why there is no WebSocket, in words.
fn refusal(error: &Error) -> String {
    match error {
        Error::Http(answer) => {
            format!(
                "it answers \"{}\": the path of the address is that of no target (see /json/list there)",
                answer.status()
            )
        }
        Error::Protocol(ProtocolError::SecWebSocketAcceptKeyMismatch) => {
            "its handshake is not the answer to this one: something between keeps answers".into()
        }
        Error::Io(error) => format!("it says nothing ({error})"),
        other => format!("it does not answer as a WebSocket ({other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_named_as_it_was_reached() {
        let asked = |text: &str| {
            let request = request(&Address::parse(text).unwrap()).unwrap();
            (
                request.headers()["Host"].to_str().unwrap().to_string(),
                request.uri().path().to_string(),
            )
        };
        assert_eq!(asked("ws://[::1]:1/x-y"), ("[::1]:1".into(), "/x-y".into()));
        assert_eq!(asked("localhost:9222"), ("localhost:9222".into(), "/".into()));
        assert!(request(&Address::parse("ws://a/<>").unwrap()).is_err(), "not a panic");
    }
}
