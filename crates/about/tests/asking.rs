//! Programs that answer badly: this process plays them, by listening where its reporters' server
//! would.

use heaplab_about::{AboutError, ask};
use heaplab_reporter::socket_path;
use std::fs::{DirBuilder, remove_file};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where the helper of the impostor's test listens.
const LISTEN: &str = "HEAPLAB_TEST_LISTENS_AT";

fn socket(pid: u32) -> PathBuf {
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    let path = socket_path(Path::new("/"), user, pid);
    let _ = DirBuilder::new().mode(0o700).create(path.parent().unwrap());
    let _ = remove_file(&path);
    path
}

#[test]
fn what_a_program_answers_is_told_apart() {
    let pid = std::process::id();
    let path = socket(pid);
    assert!(matches!(asked(pid), Err(AboutError::NoReporters(_))));
    let listener = UnixListener::bind(&path).unwrap();
    let answers: [&[u8]; 5] = [
        b"{\"version\":1,\"hasMozMallocUsableSize\":true,\"reports\":[{\"process\":\"a",
        b"",
        b"what?",
        b"{\"refused\":\"not now\"}\n",
        b"{\"version\":1,\"hasMozMallocUsableSize\":true,\"reports\":[],\"heaplab\":{\"errors\":[\"e\"]}}",
    ];
    let server = std::thread::spawn(move || {
        for answer in answers {
            let (mut connection, _) = listener.accept().unwrap();
            BufReader::new(&connection).read_line(&mut String::new()).unwrap();
            connection.write_all(answer).unwrap();
        }
        // The last is never answered; the connection stays open until the asker leaves.
        let (connection, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(&connection);
        while lines.read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0) {}
    });
    let bytes = answers[0].len();
    assert!(matches!(asked(pid), Err(AboutError::Died { bytes: b, .. }) if b == bytes));
    assert!(matches!(asked(pid), Err(AboutError::Died { bytes: 0, .. })));
    assert!(matches!(asked(pid), Err(AboutError::Json(_))));
    assert!(matches!(asked(pid), Err(AboutError::Refused { why, .. }) if why == "not now"));
    assert_eq!(asked(pid).unwrap().said.errors, ["e"]);
    let late = ask::report(pid, Duration::from_millis(200));
    assert!(matches!(late, Err(AboutError::TimeOut { .. })), "{late:?}");
    server.join().unwrap();
    assert!(matches!(asked(pid), Err(AboutError::NoReporters(_))), "a stale socket");
    remove_file(path).unwrap();
    assert!(matches!(asked(u32::MAX), Err(AboutError::NoProcess(u32::MAX))));
}

fn asked(pid: u32) -> Result<heaplab_about::Saved, AboutError> {
    ask::report(pid, Duration::from_secs(10))
}

/// Not a test of its own: the other process of the next one.
#[test]
fn listens_for_another() {
    let Some(path) = std::env::var_os(LISTEN) else { return };
    let _listener = UnixListener::bind(path).unwrap();
    println!("\nlistening");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn another_process_on_the_socket_is_not_asked() {
    // A process of ours without reporters, whose socket somebody else has taken.
    let victim = Command::new("sleep").arg("60").spawn().unwrap();
    let path = socket(victim.id());
    let mut impostor = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "listens_for_another", "--nocapture"])
        .env(LISTEN, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(impostor.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "listening"));
    let found = asked(victim.id());
    let listener_is =
        |pid| matches!(found, Err(AboutError::Impostor { listener, .. }) if listener == pid);
    assert!(listener_is(impostor.id()), "{found:?}");
    drop(impostor.stdin.take());
    for mut child in [victim, impostor] {
        let _ = child.kill();
        child.wait().unwrap();
    }
    remove_file(path).unwrap();
}
