//! The header and the static library in a program in C and one in C++, and the promises of sockets:
//! the users who may ask, the state of a fork, and the files left behind.

use heaplab_reporter::{AT, PRESSURE, REPORT, socket_path};
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

/// The static library, built as documented, beside this test's own build.
fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    run(Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["rustc", "--quiet", "--offline", "--package", "heaplab-reporter", "--lib"])
        .args(["--features", "c-interface", "--crate-type", "staticlib", "--target-dir"])
        .arg(target));
    target.join("debug/libheaplab_reporter.a")
}

fn compiled(
    compiler: &str,
    standard: &str,
    name: &str,
    source: &str,
    libraries: &[&str],
) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(compiler);
    command
        .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(here.join("include"))
        .args(if compiler.ends_with("++") { &["-x", "c++"][..] } else { &[] })
        .arg(here.join("tests/c").join(source))
        .args(["-x", "none"])
        .arg(library())
        .args(libraries)
        .args(["-lpthread", "-lm", "-ldl"]);
    if !libraries.is_empty() && !command.output().is_ok_and(|done| done.status.success()) {
        heaplab_oracle::skip(format_args!("{libraries:?} cannot be linked"));
        return None;
    }
    run(&mut command);
    Some(program)
}

/// A process that serves, and its socket.
fn started(mut command: Command) -> (Child, PathBuf) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
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
    let (mut child, path) = started(Command::new(
        compiled(&compiler, "-std=c11", "reporter-c11", "program.c", &[]).unwrap(),
    ));
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
    assert!(relieved.contains(",\"marks\":[{\"name\":\"full \",\"seconds_ago\":0."), "{relieved}");
    let then = asked(&path, &format!("{AT}full \n"));
    assert!(then.contains("\"path\":\"times\",\"kind\":2,\"units\":1,\"amount\":0,"), "{then}");
    assert!(then.contains(&expected[..40]) && !then.contains("callbacks"), "{then}");
    let refused = "{\"refused\":\"no mark is called empty; it has full \"}\n";
    assert_eq!(asked(&path, &format!("{AT}empty\n")), refused);
    assert!(asked(&path, "what\n").starts_with("{\"refused\":"));
    assert!(asked(&path, &"x".repeat(204)).starts_with("{\"refused\":"), "the line is bounded");

    child.stdin.take().unwrap().write_all(b"q").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!path.exists(), "the socket is removed at exit");
}

#[test]
fn a_killed_programs_socket_is_removed_by_the_next() {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    if !heaplab_oracle::has(&compiler) {
        return;
    }
    let program = compiled(&compiler, "-std=c++17", "reporter-cxx17", "program.c", &[]).unwrap();
    let (mut killed, stale) = started(Command::new(&program));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(stale.exists());
    let (mut next, path) = started(Command::new(&program));
    assert!(!stale.exists() && path.exists());
    next.kill().unwrap();
    next.wait().unwrap();
    std::fs::remove_file(path).unwrap();
}

/// The amount of a report in an answer.
fn amount(answer: &str, path: &str) -> f64 {
    let report = answer.lines().find(|line| line.contains(&format!("\"path\":\"{path}\"")));
    let report = report.unwrap_or_else(|| panic!("no {path} in {answer}"));
    let digits = report.split("\"amount\":").nth(1).unwrap().split(',').next().unwrap();
    digits.parse().unwrap()
}

#[test]
fn sqlite_has_more_than_it_counts() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let libraries = ["-lsqlite3"];
    let program = compiled(&compiler, "-std=c11", "reporter-sqlite", "sqlite.c", &libraries);
    let Some(program) = program else { return };
    let ratio = |preloaded: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(&program);
        command.arg(folder.path().join("t.db"));
        if let Some(library) = preloaded {
            command.env("LD_PRELOAD", library);
        }
        let (mut child, path) = started(command);
        let before = asked(&path, &format!("{REPORT}\n"));
        let after = asked(&path, &format!("{PRESSURE}\n"));
        let cache = "explicit/sqlite/cache";
        assert!(amount(&after, cache) < amount(&before, cache) / 10.0, "pressure drops the cache");
        let used = amount(&before, "sqlite-used");
        let parts: f64 = ["cache", "schema", "statements"]
            .map(|part| amount(&before, &format!("explicit/sqlite/{part}")))
            .iter()
            .sum();
        assert!(parts > used * 0.8 && parts < used * 1.02, "{parts} of {used}");
        child.stdin.take().unwrap().write_all(b"q").unwrap();
        child.wait().unwrap();
        // Bytes freed under pressure, by the allocator and by SQLite; the rest of the program
        // cancels out.
        let freed = |path: &str| amount(&before, path) - amount(&after, path);
        let ratio = freed("heap-allocated") / freed("sqlite-used");
        eprintln!("{}: {ratio:.3} times what SQLite counts", preloaded.unwrap_or("glibc"));
        ratio
    };
    // Requests of 4,368 bytes: glibc rounds them to 16, jemalloc to 5,120.
    assert!((1.0..1.03).contains(&ratio(None)));
    assert!((1.15..1.20).contains(&ratio(Some("libjemalloc.so.2"))));
}
