//! The client's side of a WebSocket, as far as an inspector needs it: text messages, answered pings, closing.
//!
//! Source: RFC 6455. Left out: extensions (none is asked for, so that none may come), binary messages, fragments of what is sent (only
//! short commands are). What is received may be fragmented. A message is bounded before memory is taken for it.

use crate::sha1::{base64, sha1};
use crate::{Address, CaptureError, Options, http};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;

/// The longest message that is taken. V8 sends chunks of 100 KB, which escaped are at most 600 KB.
pub const MESSAGE_BYTES_LIMIT: u64 = 64 << 20;
/// The longest answer to the opening handshake.
const HANDSHAKE_BYTES_LIMIT: usize = 16 << 10;
const BUFFER_BYTES: usize = 256 << 10;

const CONTINUED: u8 = 0;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// An open connection.
#[derive(Debug)]
pub struct WebSocket {
    stream: BufReader<TcpStream>,
    mask: RandomState,
    sent: u64,
}

/// Why nothing was received.
#[derive(Debug)]
pub enum Lost {
    /// The other side closed, or its process is gone.
    Closed,
    /// Nothing came within the time.
    Silent,
    /// The network failed.
    Failed(io::Error),
    /// What came is no WebSocket.
    Wrong(String),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Lost::Silent,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted => Lost::Closed,
            _ => Lost::Failed(error),
        }
    }
}

impl WebSocket {
    /// Connects to `address` and opens a WebSocket at its path.
    ///
    /// # Errors
    /// Nobody listens there, or it is no WebSocket.
    pub fn open(address: &Address, options: &Options) -> Result<WebSocket, CaptureError> {
        let wrong = |what: String| CaptureError::NoInspector { address: address.to_string(), what };
        let stream = http::connect(address, options)?;
        stream.set_read_timeout(Some(options.connect)).map_err(|error| wrong(error.to_string()))?;
        let mask = RandomState::new();
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&mask.hash_one(1).to_le_bytes());
        nonce[8..].copy_from_slice(&mask.hash_one(2).to_le_bytes());
        let key = base64(&nonce);
        let mut socket = WebSocket { stream: BufReader::with_capacity(BUFFER_BYTES, stream), mask, sent: 3 };
        let path = if address.path.is_empty() { "/" } else { &address.path };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n",
            address.host_port()
        );
        socket.stream.get_mut().write_all(request.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        socket.read_handshake(&key).map_err(wrong)?;
        socket.stream.get_ref().set_read_timeout(Some(options.silence)).map_err(|error| wrong(error.to_string()))?;
        Ok(socket)
    }

    fn read_handshake(&mut self, key: &str) -> Result<(), String> {
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match self.stream.read_exact(&mut byte) {
                Ok(()) if answer.len() < HANDSHAKE_BYTES_LIMIT => answer.push(byte[0]),
                Ok(()) => return Err(format!("it does not answer as a WebSocket ({})", http::excerpt(&answer))),
                Err(error) if answer.is_empty() => return Err(format!("it says nothing ({error})")),
                Err(_) => return Err(format!("it does not answer as a WebSocket ({})", http::excerpt(&answer))),
            }
        }
        let (head, _) = http::split(&answer).ok_or_else(|| String::from("its answer is no text"))?;
        let status = head.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("101") {
            return Err(format!("it answers {status:?}: the path of the address is that of no target (see /json/list there)"));
        }
        let expected = base64(&sha1(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes()));
        match http::header(head, "sec-websocket-accept") {
            Some(accept) if accept == expected => Ok(()),
            _ => Err("its handshake is not the answer to this one: something between keeps answers".into()),
        }
    }

    /// Sends a text.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn send(&mut self, text: &str) -> Result<(), Lost> {
        self.send_frame(TEXT, text.as_bytes())
    }

    fn send_frame(&mut self, kind: u8, payload: &[u8]) -> Result<(), Lost> {
        self.sent += 1;
        let mask = (self.mask.hash_one(self.sent) as u32).to_le_bytes();
        let mut frame = vec![0x80 | kind];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length @ 126..65536 => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        Ok(self.stream.get_mut().write_all(&frame)?)
    }

    /// The next text message, into `message`.
    ///
    /// # Errors
    /// The connection is gone, silent for too long, or what comes is no WebSocket.
    pub fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), Lost> {
        message.clear();
        let mut began = false;
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head)?;
            let (last, reserved, kind) = (head[0] & 0x80 != 0, head[0] & 0x70, head[0] & 0x0f);
            if reserved != 0 || head[1] & 0x80 != 0 {
                return Err(Lost::Wrong(format!("a frame begins with {:#04x} {:#04x}", head[0], head[1])));
            }
            let length = self.length(head[1])?;
            match kind {
                TEXT | CONTINUED if (kind == CONTINUED) == began => {
                    if length.saturating_add(message.len() as u64) > MESSAGE_BYTES_LIMIT {
                        return Err(Lost::Wrong(format!("a message of more than {MESSAGE_BYTES_LIMIT} bytes")));
                    }
                    self.append(message, length)?;
                    began = true;
                    if last {
                        return Ok(());
                    }
                }
                CLOSE => return Err(Lost::Closed),
                PING | PONG if last && length < 126 => {
                    let mut payload = Vec::new();
                    self.append(&mut payload, length)?;
                    if kind == PING {
                        self.send_frame(PONG, &payload)?;
                    }
                }
                _ => return Err(Lost::Wrong(format!("a frame of kind {kind} and {length} bytes is out of place"))),
            }
        }
    }

    fn length(&mut self, short: u8) -> Result<u64, Lost> {
        Ok(match short {
            126 => {
                let mut bytes = [0; 2];
                self.stream.read_exact(&mut bytes)?;
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                self.stream.read_exact(&mut bytes)?;
                u64::from_be_bytes(bytes)
            }
            short => u64::from(short),
        })
    }

    /// Grows with what comes, not with what is promised.
    fn append(&mut self, message: &mut Vec<u8>, length: u64) -> Result<(), Lost> {
        let read = (&mut self.stream).take(length).read_to_end(message)?;
        if (read as u64) < length { Err(Lost::Closed) } else { Ok(()) }
    }

    /// Says goodbye, as well as it goes.
    pub fn close(&mut self) {
        let _ = self.send_frame(CLOSE, &1000_u16.to_be_bytes());
    }
}
