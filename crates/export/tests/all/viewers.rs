//! speedscope (in a browser) and the Firefox Profiler (its own command line) load the exports and
//! show their numbers.
//!
//! Both come from npm: `npm ci --prefix crates/export/tests/viewers`.

use crate::{
    tools::{file_of, run},
    workload::{events, tables, with_export},
};
use heaplab_export::{Format, InUseAt, Weight};
use std::{
    collections::BTreeSet,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The folder of the viewers, if installed.
fn viewers(package: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/viewers");
    if folder.join("node_modules").join(package).exists() {
        return heaplab_oracle::has("node").then_some(folder);
    }
    heaplab_oracle::skip(format_args!(
        "{package} is not installed (npm ci --prefix {})",
        folder.display()
    ));
    None
}

/// What speedscope shows of an export; `None`: it is not installed.
fn in_speedscope(format: Format, moment: InUseAt) -> Option<serde_json::Value> {
    let (viewers, chromium) = viewers("speedscope").zip(heaplab_oracle::chromium())?;
    let folder = tempfile::tempdir().unwrap();
    let file = file_of(folder.path(), format, moment);
    let [script, chromium] = [viewers.join("speedscope.mjs"), chromium];
    let shown = run("node", &[script.to_str().unwrap(), &file, chromium.to_str().unwrap()]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["errors"], serde_json::json!([]));
    Some(shown)
}

#[test]
fn speedscope_shows_functions_and_sums() {
    let Some(shown) = in_speedscope(Format::Speedscope, InUseAt::Peak) else { return };
    assert!(shown["title"].as_str().unwrap().starts_with("shop --open \"now\""), "{shown}");
    // 4,000 of 4,477 bytes; everything with a stack is in main; 8 of 9 requests.
    let expected = [
        ("in use at peak (bytes) (1/4)", ["3.91 KB (89%)", "libstripped.so.1+0x2300"]),
        ("allocated (bytes) (2/4)", ["5.41 KB (>99%)", "<b>&"]),
        ("in use at peak (objects) (3/4)", ["4 (80%)", "(no stack recorded)"]),
        ("allocated (requests) (4/4)", ["8 (89%)", "rename"]),
    ];
    for (view, (title, texts)) in shown["views"].as_array().unwrap().iter().zip(expected) {
        let view = view.as_str().unwrap();
        assert!(
            view.contains(title) && texts.iter().all(|text| view.contains(text)),
            "{title}: {view}"
        );
    }
    assert_eq!(shown["views"].as_array().unwrap().len(), 4);
}

#[test]
fn speedscope_reads_collapsed_stacks() {
    let collapsed = Format::Collapsed(Weight::AllocatedBytes);
    let Some(shown) = in_speedscope(collapsed, InUseAt::Peak) else { return };
    let view = shown["views"][0].as_str().unwrap();
    // Total, self and name of each function; all of it is 5,547 bytes.
    let rows: Vec<&str> =
        view.split("Symbol Name\n").nth(1).unwrap().lines().map(str::trim).collect();
    let number = |text: &str| text.split(' ').next().unwrap().replace(',', "");
    let found: BTreeSet<(String, String, &str)> =
        rows.chunks_exact(3).map(|row| (number(row[0]), number(row[1]), row[2])).collect();
    let row = |total: &str, own: &str, name| (total.to_owned(), own.to_owned(), name);
    let expected = [
        row("5540", "100", "main"),
        row("1020", "1020", "copy"),
        row("1020", "0", "rename"),
        row("1020", "0", "serve"),
        row("4000", "4000", "libstripped.so.1+0x2300"),
        row("300", "300", "0x7f0000001234"),
        row("7", "7", "(no stack recorded)"),
    ];
    assert!(expected.iter().all(|row| found.contains(row)), "{found:?}");
    assert_eq!(found.len(), expected.len() + 1, "and the hostile one: {found:?}");
}

/// The Firefox Profiler with one profile open: a server, which this test owns, and a client,
/// started once for each question.
struct Profiler {
    program: PathBuf,
    sessions: tempfile::TempDir,
    server: Child,
}

impl Profiler {
    fn open(program: PathBuf, file: &str) -> Profiler {
        let sessions = tempfile::tempdir().unwrap();
        let server = Self::command(&program, &sessions)
            .args(["--daemon", file, "--session", "test"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut profiler = Profiler { program, sessions, server };
        // A client that finds a session without a listening server takes it for dead and removes
        // it. So no client is asked before.
        while !profiler.listens() || profiler.ask(&["thread", "list"]).is_err() {
            assert!(profiler.server.try_wait().unwrap().is_none(), "the server has ended");
            std::thread::sleep(Duration::from_millis(100));
        }
        profiler
    }

    /// Whether the server has a listening socket.
    fn listens(&self) -> bool {
        let mut entries = std::fs::read_dir(self.sessions.path()).unwrap().flatten();
        entries.any(|entry| UnixStream::connect(entry.path()).is_ok())
    }

    fn command(program: &Path, sessions: &tempfile::TempDir) -> Command {
        let mut command = Command::new("node");
        // Labels need no symbols, and a test no network.
        command
            .arg(program)
            .env("PROFILER_CLI_NO_SYMBOLICATE", "1")
            .env("PROFILER_CLI_SESSION_DIR", sessions.path());
        command.env("PROFILER_CLI_LOAD_TIMEOUT_MS", "600000");
        command
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Self::command(&self.program, &self.sessions)
            .args(arguments)
            .args(["--session", "test"])
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        // It may have ended by itself; then nothing needs stopping.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn the_firefox_profiler_shows_allocated_retained_and_in_use() {
    let Some(viewers) = viewers("@firefox-devtools/profiler-cli") else { return };
    let major: u32 = run("node", &["--version"])
        .trim_start_matches('v')
        .split('.')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    if major < 20 {
        eprintln!("skipped: profiler-cli needs Node 20, this is {major}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let written = file_of(folder.path(), Format::Firefox, InUseAt::Peak);
    let file = format!("{written}.json");
    std::fs::rename(written, &file).unwrap();
    let program = viewers.join("node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js");
    let profiler = Profiler::open(program, &file);
    let shows = |arguments: &[&str], wanted: &[&str]| {
        let text = profiler.ask(arguments).unwrap();
        assert!(wanted.iter().all(|wanted| text.contains(wanted)), "{wanted:?} in {text}");
    };
    with_export(&tables(), &events(), InUseAt::Peak, |_, profile| {
        assert_eq!(
            (profile.totals.requested_bytes, profile.end.live.bytes, profile.peak.live.bytes),
            (5547, 427, 4477)
        );
    });
    profiler.ask(&["thread", "select", "t-0"]).unwrap();
    profiler.ask(&["strategy", "native-allocations"]).unwrap();
    shows(
        &["thread", "functions"],
        &[
            "libstripped.so.1+0x2300 - self: 4,000B (72.1%)",
            "main - self: 100B (1.8%), total: 5,540B",
        ],
    );
    profiler.ask(&["strategy", "native-retained-allocations"]).unwrap();
    shows(
        &["thread", "functions"],
        &[
            "copy - self: 20B",
            "main - self: 100B (23.4%), total: 420B (98.4%)",
            "(no stack recorded) - self: 7B",
        ],
    );
    profiler.ask(&["thread", "select", "t-1"]).unwrap();
    shows(
        &["thread", "functions"],
        &[
            "libstripped.so.1+0x2300 - self: 4,000B (89.3%)",
            "main - self: 100B (2.2%), total: 4,470B",
        ],
    );
    shows(&["counter", "list"], &["Memory"]);
}
