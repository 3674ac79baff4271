//! A misbehaving target: nothing that it sent is lost, and nothing false is believed.

use crate::server::{answer, chunk, frame, serve, serve_after};
use heaplab_capture::take::{self, Request, part_of};
use heaplab_capture::{CaptureError, Connection, Endpoint, MESSAGE_BYTES_LIMIT, Options};
use std::path::Path;
use std::time::Duration;

/// Longer than a busy machine keeps a thread or a process waiting.
pub const PATIENT: Options =
    Options { connect: Duration::from_secs(600), silence: Duration::from_secs(600) };

fn take_from(url: &str, path: &Path) -> Result<take::Taken, CaptureError> {
    take_with(PATIENT, url, path)
}

fn take_with(options: Options, url: &str, path: &Path) -> Result<take::Taken, CaptureError> {
    let endpoint = Endpoint::at(url, None, &options)?;
    let mut connection = Connection::open(&endpoint, &options)?;
    take::take(&mut connection, path, Request::default(), &mut |_| {})
}

#[test]
fn fragments_pings_and_progress_are_taken_as_they_come() {
    let (url, served) = serve(|client| {
        assert!(client.command().unwrap().contains("HeapProfiler.enable"));
        client.say(r#"{"id":1,"result":{}}"#);
        assert!(client.command().unwrap().contains(r#""reportProgress":true"#));
        client.say(r#"{"method":"HeapProfiler.reportHeapSnapshotProgress","params":{"done":5,"total":10}}"#);
        client.say(r#"{"method":"HeapProfiler.reportHeapSnapshotProgress","params":{"done":10,"total":10,"finished":true}}"#);
        client.send_frame(0x01, br#"{"method":"HeapProfiler.addHeap"#);
        client.raw(&[0x89, 2, b'h', b'i']);
        client.send_frame(0x80, br#"SnapshotChunk","params":{"chunk":"{\"a\":\"\\u00e9\"}\n"}}"#);
        assert_eq!(
            client.frame(),
            Some((10, b"hi".to_vec())),
            "a ping is answered with what it says"
        );
        client.say(r#"{"id":2,"result":{}}"#);
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heapsnapshot");
    let taken = take_from(&url, &path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":\"\\u00e9\"}\n");
    assert_eq!(taken.bytes, std::fs::metadata(&path).unwrap().len());
    assert!(!part_of(&path).exists());
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "a heap is its owner's alone");
    served.join().unwrap();
}

/// The error of a capture whose target does `end` after its first chunk, and the file that is left.
fn cut(
    end: impl FnOnce(&mut crate::server::Client) + Send + 'static,
) -> (String, Option<String>, bool) {
    let served = serve(|client| {
        client.command();
        client.say(r#"{"id":1,"result":{}}"#);
        client.command();
        client.chunk("{\"snapshot\":");
        end(client);
    });
    cut_from(PATIENT, served)
}

fn cut_from(
    options: Options,
    (url, served): (String, std::thread::JoinHandle<()>),
) -> (String, Option<String>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heapsnapshot");
    std::fs::write(&path, "an older one").unwrap();
    let error = take_with(options, &url, &path).unwrap_err();
    served.join().unwrap();
    let older = std::fs::read_to_string(&path).unwrap() == "an older one";
    (error.to_string(), std::fs::read_to_string(part_of(&path)).ok(), older)
}

#[test]
fn what_came_before_the_end_is_kept_beside_the_older_file() {
    let kept = Some(String::from("{\"snapshot\":"));
    let (error, part, older) = cut(|_| {});
    assert!(
        error.contains("closed the connection") && error.contains("the 12 bytes that came are in"),
        "{error}"
    );
    assert_eq!((part, older), (kept.clone(), true));
    // The target sends everything at once, so the test waits for the target's silence alone.
    let silence = Duration::from_secs(1);
    let said = [r#"{"id":1,"result":{}}"#, &chunk("{\"snapshot\":")]
        .map(|text| frame(0x81, text.as_bytes()))
        .concat();
    let served = serve_after(said, |client| while client.frame().is_some() {});
    let (error, part, _) = cut_from(Options { silence, ..PATIENT }, served);
    assert!(error.contains("nothing was heard"), "{error}");
    assert_eq!(part, kept);
    let (error, part, _) = cut(|client| client.say(r#"{"id":2,"result":{}}"#));
    assert!(error.contains("the text has no end"), "{error}");
    assert_eq!(part, kept);
    let (error, part, _) =
        cut(|client| client.say(r#"{"id":2,"error":{"code":-1,"message":"out of luck"}}"#));
    assert!(error.contains("refused HeapProfiler.takeHeapSnapshot: out of luck"), "{error}");
    assert_eq!(part, kept);
}

#[test]
fn frames_that_lie_are_refused_without_the_memory_they_claim() {
    let (error, ..) =
        cut(|client| client.raw(&[0x81, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]));
    assert!(error.contains("a message of more than"), "{error}");
    let (error, ..) = cut(|client| client.raw(&[0x83, 0]));
    assert!(error.contains("invalid opcode: 3"), "{error}");
    let (error, ..) = cut(|client| client.raw(&[0xc1, 0]));
    assert!(error.contains("Reserved bits"), "{error}");
    let (error, ..) = cut(|client| client.say("not json"));
    assert!(error.contains("not JSON"), "{error}");
    let (error, ..) = cut(|client| client.send_frame(0x81, b"{\"\xff\":0}"));
    assert!(error.contains("UTF-8"), "{error}");
    let (error, ..) = cut(|client| client.send_frame(0x82, b"{}"));
    assert!(error.contains("binary"), "{error}");
    let (error, ..) = cut(|client| {
        for first in [0x01, 0, 0] {
            client.send_frame(first, &vec![b' '; MESSAGE_BYTES_LIMIT / 2]);
        }
    });
    assert!(error.contains("a message of more than"), "in fragments: {error}");
    let (error, ..) = cut(|client| client.raw(&[0x80, 1, b'x']));
    assert!(error.contains("nothing to continue"), "a fragment of nothing: {error}");
}

#[test]
fn what_is_no_inspector_is_told_from_what_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heapsnapshot");
    let said = |address: &str| take_from(address, &path).unwrap_err().to_string();
    let shop = answer(b"HTTP/1.1 200 OK\r\n\r\n<html>");
    let error = said(&shop);
    assert!(
        error.contains("is not an inspector") && error.contains("/json/list is not a list"),
        "{error}"
    );
    let error = said(&format!("ws://{}/x", answer(b"HTTP/1.1 400 Bad Request\r\n\r\n")));
    assert!(error.contains("400 Bad Request"), "{error}");
    let error = said(&format!(
        "ws://{}/x",
        answer(b"HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n")
    ));
    assert!(error.contains("not the answer"), "{error}");
    let error = said(&format!("ws://{}/x", answer(b"SSH-2.0")));
    assert!(error.contains("does not answer as a WebSocket"), "{error}");
    // A port that a connection holds: nothing listens there, and nothing can.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connection = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let error = said(&connection.local_addr().unwrap().to_string());
    assert!(error.contains("cannot connect") && error.contains("--inspect"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_folder_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (url, served) = serve(|client| while client.command().is_some() {});
    assert!(take_from(&url, folder.path()).unwrap_err().to_string().contains("folder"));
    served.join().unwrap();
}
