//! The server over a real socket.

use heaplab_loopback::{Answer, Server};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Starts a server that says each request's path; gives its address and its token.
fn started() -> (String, String) {
    let server = Server::bind(0).unwrap();
    let url = server.url();
    let rest = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    let (address, token) = rest.split_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    std::thread::spawn(move || {
        server.serve(&|request| Answer::html(format!("<{}>", request.path)))
    });
    (address, token)
}

fn ask(address: &str, request: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_page_is_answered_under_its_token_only() {
    let (address, token) = started();
    assert_eq!(token.len(), 32);
    let answer = ask(&address, &format!("GET /{token}/a/b?c HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n<a/b>"), "{answer}");
    assert!(answer.contains("Content-Security-Policy: default-src 'none'"), "{answer}");
    let head = ask(&address, &format!("HEAD /{token}/ HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    assert!(head.contains("Content-Length: 2\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let wrong =
        ask(&address, &format!("GET /{} HTTP/1.1\r\nHost: {address}\r\n\r\n", "0".repeat(32)));
    assert!(wrong.starts_with("HTTP/1.1 404 "), "{wrong}");
    assert_ne!(started().1, token, "each server has a token of its own");
}

#[test]
fn connections_that_ask_nothing_stop_nobody() {
    let (address, token) = started();
    // More than the server keeps: those that came first are closed.
    let mut idle: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let began = Instant::now();
    let request = format!("GET /{token}/x HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let answer = ask(&address, &request);
    assert!(answer.ends_with("<x>"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(8), "idle connections were waited for");
    assert_eq!(idle[0].read(&mut [0]).unwrap(), 0, "the oldest is closed");
    // One that has waited is answered when it asks.
    let late = idle.last_mut().unwrap();
    late.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    late.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("<x>"), "{answer}");
}
