//! Pages for one person on the loopback address, behind a token.
//!
//! A command that shows a page while it runs (`heaplab snapshot open --serve`) needs a server that
//! nobody else can ask. The kernel chooses the port, the socket listens on 127.0.0.1 alone, and the
//! first part of every path is a random token, so other users of the machine and other pages of
//! the browser cannot guess an address. A request under another host name is refused (DNS
//! rebinding). The page may load scripts and styles from its own address only.
//!
//! Deviations from HTTP/1.1 (RFC 9112): one request a connection; GET and HEAD only; no bodies.
//!
//! ```
//! use heaplab_loopback::{Answer, Server};
//! let server = Server::bind(0)?;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! let hello = |request: &heaplab_loopback::Request| match request.path.as_str() {
//!     "" => Answer::html("<!doctype html><title>hello</title>"),
//!     _ => Answer::not_found(),
//! };
//! // `server.serve(&hello)` answers until the program ends.
//! # let _ = hello;
//! # Ok::<(), std::io::Error>(())
//! ```

mod request;

pub use request::Request;

use request::Refused;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

/// Connections that are answered at a time.
const ANSWERED: usize = 8;
/// Connections that may wait without having asked: browsers open some ahead. Beyond, the one that
/// has waited longest is closed.
const WAITING: usize = 256;
/// How long a client may take to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A pause where the system has no more of something.
const PAUSE: Duration = Duration::from_millis(50);
/// The page loads nothing from elsewhere and is shown in no other page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A socket that listens on the loopback address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    port: u16,
    token: String,
}

/// What a request is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The media type of `body`.
    pub content_type: &'static str,
    /// The content.
    pub body: Vec<u8>,
}

impl Answer {
    /// 200 with this content.
    pub fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status: 200, content_type, body: body.into() }
    }

    /// A page.
    pub fn html(body: impl Into<Vec<u8>>) -> Answer {
        Answer::ok("text/html; charset=utf-8", body)
    }

    /// An error with a sentence.
    pub fn error(status: u16, why: impl Into<String>) -> Answer {
        Answer { status, content_type: "text/plain; charset=utf-8", body: why.into().into_bytes() }
    }

    /// There is nothing at this path.
    pub fn not_found() -> Answer {
        Answer::error(404, "there is nothing here")
    }
}

impl Server {
    /// Listens on the loopback address. Port 0 lets the kernel choose.
    ///
    /// # Errors
    /// The port is taken, or the system has no random numbers.
    pub fn bind(port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        // A client that leaves between being seen and being accepted keeps nobody waiting.
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok(Server { listener, port, token: token()? })
    }

    /// Where the page is: the address with the token.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.token)
    }

    /// Answers requests until the program ends. A connection takes a thread from its first byte
    /// on, so that those which ask nothing keep nobody waiting.
    pub fn serve(&self, answer: &(dyn Fn(&Request) -> Answer + Sync)) -> ! {
        let (asking, asked) = mpsc::channel::<TcpStream>();
        let asked = Mutex::new(asked);
        std::thread::scope(|scope| {
            for _ in 0..ANSWERED {
                scope.spawn(|| {
                    loop {
                        let next = asked.lock().ok().and_then(|asked| asked.recv().ok());
                        // The sender lives as long as the program.
                        let Some(connection) = next else { return };
                        // A client that goes away in the middle harms nobody else.
                        drop(self.converse(connection, answer));
                    }
                });
            }
            let mut waiting = VecDeque::new();
            loop {
                self.wait(&mut waiting, &asking);
            }
        })
    }

    /// Waits until somebody connects or asks: who has asked goes to the threads.
    fn wait(&self, waiting: &mut VecDeque<TcpStream>, asking: &Sender<TcpStream>) {
        let sockets = std::iter::once(self.listener.as_fd()).chain(waiting.iter().map(AsFd::as_fd));
        let mut polled: Vec<PollFd> =
            sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
        if poll(&mut polled, None).is_err() {
            std::thread::sleep(PAUSE);
            return;
        }
        let ready: Vec<bool> = polled.iter().map(|socket| !socket.revents().is_empty()).collect();
        drop(polled);
        for (connection, is_ready) in std::mem::take(waiting).into_iter().zip(&ready[1..]) {
            if *is_ready {
                drop(asking.send(connection));
            } else {
                waiting.push_back(connection);
            }
        }
        if ready[0] {
            match self.listener.accept() {
                Ok((connection, _)) => waiting.push_back(connection),
                // The client left, or there are no file descriptors: others may close theirs.
                Err(_) => std::thread::sleep(PAUSE),
            }
            if waiting.len() > WAITING {
                waiting.pop_front();
            }
        }
    }

    fn converse(
        &self,
        mut connection: TcpStream,
        answer: &(dyn Fn(&Request) -> Answer + Sync),
    ) -> io::Result<()> {
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        let (answer, has_body) = match Request::read(&mut connection, self.port, &self.token) {
            Ok((request, has_body)) => (answer(&request), has_body),
            Err(Refused::Gone) => return Ok(()),
            Err(Refused::With(status, why)) => (Answer::error(status, why), true),
        };
        let head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Content-Security-Policy: {POLICY}\r\n\r\n",
            answer.status,
            reason(answer.status),
            answer.content_type,
            answer.body.len()
        );
        connection.write_all(head.as_bytes())?;
        if has_body {
            connection.write_all(&answer.body)?;
        }
        connection.flush()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Error",
    }
}

/// 128 random bits in hexadecimal.
fn token() -> io::Result<String> {
    let mut bits = [0_u8; 16];
    let mut filled = 0;
    while filled < bits.len() {
        filled +=
            rustix::rand::getrandom(&mut bits[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}
