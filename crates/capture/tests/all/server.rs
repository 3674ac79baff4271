//! A server with the manners of an inspector, and without them where a test asks for that.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// Serves one connection: the opening handshake, then whatever `talk` does.
pub fn serve<T: Send + 'static>(
    talk: impl FnOnce(&mut Client) -> T + Send + 'static,
) -> (String, JoinHandle<T>) {
    serve_after(Vec::new(), talk)
}

/// Like [`serve`]; sends `first` together with the handshake, so that the client has both at once.
pub fn serve_after<T: Send + 'static>(
    first: Vec<u8>,
    talk: impl FnOnce(&mut Client) -> T + Send + 'static,
) -> (String, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut client = Client { stream };
        client.shake_hands(&first);
        talk(&mut client)
    });
    (format!("ws://{address}/target"), served)
}

/// Answers one request with these bytes and hangs up.
pub fn answer(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(bytes);
    });
    address.to_string()
}

/// The other side of a connection.
pub struct Client {
    stream: TcpStream,
}

impl Client {
    fn shake_hands(&mut self, first: &[u8]) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        let request = String::from_utf8(request).unwrap();
        let key =
            request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        let accept = accept(key);
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        self.stream.write_all(&[answer.as_bytes(), first].concat()).unwrap();
    }

    /// The next command's text, unmasked.
    pub fn command(&mut self) -> Option<String> {
        let (kind, payload) = self.frame()?;
        (kind == 1).then(|| String::from_utf8(payload).unwrap())
    }

    /// The next frame's kind and content, unmasked.
    pub fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).ok()?;
        let length = match head[1] & 0x7f {
            126 => {
                let mut bytes = [0; 2];
                self.stream.read_exact(&mut bytes).ok()?;
                usize::from(u16::from_be_bytes(bytes))
            }
            short => usize::from(short),
        };
        let mut mask = [0; 4];
        self.stream.read_exact(&mut mask).ok()?;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).ok()?;
        assert_ne!(head[1] & 0x80, 0, "a client masks");
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        Some((head[0] & 0x0f, payload))
    }

    /// Sends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a frame.
    pub fn send_frame(&mut self, first: u8, payload: &[u8]) {
        self.raw(&frame(first, payload));
    }

    /// Sends a text message.
    pub fn say(&mut self, text: &str) {
        self.send_frame(0x81, text.as_bytes());
    }

    /// Sends a chunk of a snapshot.
    pub fn chunk(&mut self, text: &str) {
        self.say(&chunk(text));
    }
}

/// A frame; its length in the long form, so that any fits.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    [&[first, 127], &(payload.len() as u64).to_be_bytes()[..], payload].concat()
}

/// The message of a chunk of a snapshot.
pub fn chunk(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!(r#"{{"method":"HeapProfiler.addHeapSnapshotChunk","params":{{"chunk":"{text}"}}}}"#)
}

/// The answer to a handshake's key, made by system tools and not by the code under test.
fn accept(key: &str) -> String {
    let script = r#"printf %s "$1258EAFA5-E914-47DA-95CA-C5AB0DC85B11" | sha1sum | cut -d' ' -f1 | sed 's/../\\x&/g' | xargs -0 printf '%b' | head -c 20 | base64"#;
    let script = script.replace("$1", key);
    let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}
