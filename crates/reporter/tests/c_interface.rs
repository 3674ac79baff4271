//! The header and the static library, used by a program in C and one in C++, and what the sockets
//! promise: who may ask, what a fork has, and what is left behind.

use heaplab_reporter::{PRESSURE, REPORT, socket_path};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
}

/// The static library, built as the documentation says, beside what this test's own build has.
fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    run(Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["rustc", "--quiet", "--offline", "--package", "heaplab-reporter", "--lib"])
        .args(["--features", "c-interface", "--crate-type", "staticlib", "--target-dir"])
        .arg(target));
    target.join("debug/libheaplab_reporter.a")
}

fn compiled(compiler: &str, standard: &str, name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    run(Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(here.join("include"))
        .args(if compiler.ends_with("++") { &["-x", "c++"][..] } else { &[] })
        .arg(here.join("tests/c/program.c"))
        .args(["-x", "none"])
        .arg(library())
        .args(["-lpthread", "-lm", "-ldl"]));
    program
}

/// A process that serves, and its socket.
fn started(program: &Path) -> (Child, PathBuf) {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    let path = socket_path(Path::new("/"), user, child.id());
    (child, path)
}

fn asked(path: &Path, question: &str) -> String {
    let mut connection = UnixStream::connect(path).unwrap();
    connection.write_all(question.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_program_in_c_reports_and_leaves_nothing_behind() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let (mut child, path) = started(&compiled(&compiler, "-std=c11", "reporter-c11"));
    let folder = path.parent().unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(folder)), (0o600, 0o700));

    let answer = asked(&path, &format!("{REPORT}\n"));
    let expected = "\"path\":\"explicit/cache\\\\pages/\\u0001 and \u{fffd}\",\"kind\":1,\"units\":0,\"amount\":";
    assert!(answer.contains(expected), "{answer}");
    assert!(
        answer.contains(
            "\"path\":\"times\",\"kind\":2,\"units\":1,\"amount\":0,\"description\":\"\""
        )
    );
    assert!(answer.contains("\"path\":\"heap-allocated\""), "{answer}");
    assert!(answer.contains("Pages \\\"kept\\\".") && answer.contains("half of it is in use"));
    assert_eq!(answer.matches("explicit/odd").count(), 1, "an error, and no report: {answer}");

    let relieved = asked(&path, &format!("{PRESSURE}\n"));
    assert!(relieved.contains("and \u{fffd}\",\"kind\":1,\"units\":0,\"amount\":0,"), "{relieved}");
    assert!(relieved.contains("\"callbacks\":1"), "{relieved}");
    assert!(asked(&path, "what\n").starts_with("{\"refused\":"));
    assert!(asked(&path, &"x".repeat(64)).starts_with("{\"refused\":"), "the line is bounded");

    child.stdin.take().unwrap().write_all(b"q").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!path.exists(), "the socket is removed at exit");
}

#[test]
fn a_killed_programs_socket_is_removed_by_the_next() {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let program = compiled(&compiler, "-std=c++17", "reporter-cxx17");
    let (mut killed, stale) = started(&program);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(stale.exists());
    let (mut next, path) = started(&program);
    assert!(!stale.exists() && path.exists());
    next.kill().unwrap();
    next.wait().unwrap();
    std::fs::remove_file(path).unwrap();
}
