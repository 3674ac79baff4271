//! JVMs that end, whose pids are reused, whose command lines are long.

use super::*;
use crate::jvm::spool;
use std::cell::Cell;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

fn log_lines(spool: &Path) -> LogLines {
    LogLines::new(LogWriter::create(spool).unwrap(), Processes::real())
}

/// A time that lines written now have.
fn now_ns() -> u64 {
    crate::clock::ClockReading::now().monotonic_ns
}

/// The lines that the spool has.
fn noted(spool: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let damage = spool::read(spool, |line, _| {
        lines.push(String::from_utf8_lossy(line).into_owned());
        Ok(())
    });
    assert_eq!(damage.unwrap(), None);
    lines
}

/// A process that ends with its standard input.
fn process(arguments: &[String]) -> Child {
    let child = Command::new("/bin/sh")
        .args(["-c", "read -r _", "jvm"])
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // `spawn` returns when the old program is gone, a moment before the kernel knows the new one's
    // arguments.
    while proc_fs::arguments(child.id()).is_empty() {
        std::thread::yield_now();
    }
    child
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// The end of a JVM is noted behind its last lines, and a process that has its pid later is
/// another.
#[test]
fn a_jvm_ends_behind_its_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut log_lines = log_lines(folder.path());
    let child = process(&[]);
    let pid = child.id();
    log_lines.line(format!("[{}ns][{pid}][1] the first", now_ns()).as_bytes(), true);
    log_lines.sample(false);
    log_lines.note_ends(true);
    end(child);
    log_lines.sample(false);
    log_lines.note_ends(false);
    log_lines.line(format!("[{}ns][{pid}][1] the last", now_ns()).as_bytes(), true);
    log_lines.note_ends(false);
    log_lines.note_ends(true);
    log_lines.sample(true);
    log_lines.line(format!("[{}ns][{pid}][1] another's", now_ns()).as_bytes(), true);
    log_lines.sample(true);
    (0..30).for_each(|_| log_lines.line(&vec![b'x'; 100_000], true));
    log_lines.note_ends(false);
    log_lines.write(true);
    let lines = noted(folder.path());
    let words = [
        "heaplab: process",
        "the first",
        "heaplab: memory",
        "the last",
        "heaplab: ended",
        "heaplab: process",
        "another's",
    ];
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| words.iter().find(|word| line.contains(**word)).copied())
        .collect();
    assert_eq!(kinds, [&words[..], &["heaplab: ended"]].concat(), "{lines:?}");
}

#[test]
fn a_jvm_with_a_long_command_line_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut log_lines = log_lines(folder.path());
    let mut arguments = vec![String::from("-cp"), "\u{1}".repeat(30_000)];
    arguments.extend((0..5).map(|_| "x".repeat(100_000)));
    let child = process(&arguments);
    let pid = child.id();
    (0..2048).for_each(|_| log_lines.line("x".repeat(99).as_bytes(), true));
    log_lines.line(format!("[{}ns][{pid}][1] the first", now_ns()).as_bytes(), true);
    log_lines.line(format!("[{}ns][{pid}][1] the second", now_ns()).as_bytes(), true);
    log_lines.write(true);
    end(child);
    let lines = noted(folder.path());
    assert_eq!(
        (lines.len(), lines[2049].ends_with("the first"), lines[2050].ends_with("the second")),
        (2051, true, true)
    );
    let (_, text) = lines[2048].split_once("heaplab: process ").unwrap();
    let note: serde_json::Value = serde_json::from_str(text).unwrap();
    let words: Vec<&str> =
        note["arguments"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
    assert_eq!(
        (words.len(), words[words.len() - 2].len(), words[words.len() - 1]),
        (7, 30_000, "...")
    );
}

#[test]
fn time_and_pid_are_found() {
    assert_eq!(decorations(b"[123ns][45][67] Arena @0x1"), Some((123, 45, 11)));
    assert_eq!(decorations(b"[123ns][ 45 ][67] x"), Some((123, 45, 13)));
    for other in [&b"[123ns] x"[..], b"[1s][45][6]", b"", b"]]", b"[][]", b"[123ns]45]"] {
        assert_eq!(decorations(other), None);
    }
}

/// The pid of a JVM is another's before its end was seen: lines are those of the process that lived
/// when they were written.
#[test]
fn a_pid_that_comes_again_is_another_jvm() {
    const TICK_NS: u64 = 10_000_000;
    let folder = tempfile::tempdir().unwrap();
    let start = Rc::new(Cell::new(Some(100)));
    let shared = start.clone();
    let processes = Processes {
        start_ticks: Box::new(move |_| shared.get()),
        tick_ns: TICK_NS,
        ahead_ns: Box::new(|| 7),
    };
    let mut log_lines = LogLines::new(LogWriter::create(folder.path()).unwrap(), processes);
    // No process has this pid; questions other than its start have no answer.
    let pid = u32::MAX;
    let mut line = |ticks: u64, text: &str| {
        log_lines.line(format!("[{}ns][{pid}][1] {text}", ticks * TICK_NS).as_bytes(), true)
    };
    line(103, "the first's first");
    line(110, "the first's second");
    start.set(Some(200));
    line(150, "the first's third, read late");
    line(200, "the first's last, in the tick in which the other starts");
    line(202, "the second's first");
    line(203, "the second's second");
    start.set(None);
    line(300, "the second's third, read when it has ended");
    start.set(Some(400));
    line(410, "the third's");
    // A JVM that had ended, and whose pid was another's, when its first line was read.
    log_lines.sample(false);
    log_lines.note_ends(true);
    start.set(Some(600));
    log_lines.line(format!("[{}ns][{pid}][1] the fourth's", 500 * TICK_NS).as_bytes(), true);
    log_lines.line(format!("[{}ns][{pid}][1] the fifth's", 700 * TICK_NS).as_bytes(), true);
    assert!(log_lines.has(pid, 200) && log_lines.has(pid, 600));
    log_lines.write(true);
    let lines = noted(folder.path());
    let words: Vec<&str> = lines
        .iter()
        .map(|line| line.split_once("] ").unwrap().1)
        .map(|text| text.split([',', '{']).next().unwrap().trim())
        .collect();
    let (begins, ends) = ("heaplab: process", "heaplab: ended");
    let first = [
        begins,
        "the first's first",
        "the first's second",
        "the first's third",
        "the first's last",
        ends,
    ];
    let second = [begins, "the second's first", "the second's second", "the second's third", ends];
    let rest = [begins, "the third's", ends, begins, "the fourth's", ends, begins, "the fifth's"];
    assert_eq!(words, [&first[..], &second[..], &rest[..]].concat());
}

/// The clock of starts counts while the machine sleeps, that of lines does not.
#[test]
fn a_jvm_that_starts_after_the_machine_slept_is_known() {
    const TICK_NS: u64 = 10_000_000;
    let folder = tempfile::tempdir().unwrap();
    let (start, ahead) = (Rc::new(Cell::new(Some(100))), Rc::new(Cell::new(0)));
    let (starts, aheads) = (start.clone(), ahead.clone());
    let processes = Processes {
        start_ticks: Box::new(move |_| starts.get()),
        tick_ns: TICK_NS,
        ahead_ns: Box::new(move || aheads.get()),
    };
    let mut log_lines = LogLines::new(LogWriter::create(folder.path()).unwrap(), processes);
    let mut line = |pid: u32, ticks: u64| {
        log_lines.line(format!("[{}ns][{pid}][1] text", ticks * TICK_NS).as_bytes(), true)
    };
    line(u32::MAX, 103);
    ahead.set(50_000 * TICK_NS);
    start.set(Some(50_104));
    line(u32::MAX - 1, 106);
    assert!(
        log_lines.has(u32::MAX - 1, 50_104) && !log_lines.has(u32::MAX - 1, 1),
        "its start is known"
    );
}
