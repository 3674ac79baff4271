//! A JVM's own account of its memory: native memory tracking.
//!
//! heaplab starts the JVM with the options [`OPTIONS`], and asks the JVM's attach listener for
//! `VM.native_memory` while the JVM runs, as `jcmd` does (HotSpot's `attachListener_posix.cpp` and
//! `memReporter.cpp`). The detailed answer lists reserved ranges of addresses with their category.
//! The JVM looks up names of functions for it, some 0.5 s long, so heaplab asks for it seldom; the
//! summary, with bytes reserved and committed for each category, takes some ms.
//!
//! heaplab asks on a thread of its own: the JVM may wait for room in a ring, which the recording's
//! thread empties. heaplab sends no signal, because a process that is no JVM would die of it; the
//! option `StartAttachListener` makes the JVM listen from its start.

use super::{Account, Category, Region};
use crate::proc_fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Options that make a JVM (8 and later) track its memory by address and answer questions.
pub const OPTIONS: [&str; 2] = ["-XX:NativeMemoryTracking=detail", "-XX:+StartAttachListener"];
/// Name of the regions that are stacks of threads.
pub const THREAD_STACK: &str = "JVM: Thread Stack";

/// Longest wait for a part of an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 32 << 20;
/// Most ranges of an answer.
const REGIONS_MAX: usize = 4096;
/// Detailed answers take at most this part of the time: one in so many.
const PART_MAX: u32 = 20;
/// Least time between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// Characters kept of a refusal.
const REFUSAL_CHARACTERS: usize = 200;

/// An answer; the ranges if they were asked for.
#[derive(Debug)]
struct Answer {
    regions: Option<Vec<Region>>,
    categories: Vec<Category>,
}

/// One JVM that is asked, or a process that may become one.
#[derive(Debug, Default)]
pub struct Asked {
    /// The JVM's last answers.
    pub account: Account,
    /// The JVM's reason for no answer.
    pub refusal: Option<String>,
    pending: Option<(Instant, Receiver<Result<Answer, String>>)>,
    next: Option<Instant>,
    next_detail: Option<Instant>,
}

impl Asked {
    /// Takes an answer that has arrived, and asks again when it is time. Returns whether the answer
    /// is the first.
    pub fn look(&mut self, pid: u32) -> bool {
        let now = Instant::now();
        let mut is_first = false;
        if let Some((began, answer)) = &self.pending {
            let pause = (began.elapsed() * PART_MAX).max(PAUSE);
            match answer.try_recv() {
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {}
                Ok(Ok(answer)) => {
                    is_first = self.account.regions.is_empty();
                    self.account.categories = answer.categories;
                    if let Some(regions) = answer.regions {
                        self.account.regions = regions;
                        self.next_detail = Some(now + pause);
                    }
                }
                Ok(Err(refusal)) => self.refusal = Some(refusal),
            }
            self.pending = None;
            self.next = Some(now + PAUSE);
        }
        let is_due = |next: Option<Instant>| next.is_none_or(|next| now >= next);
        if let Some(socket) = is_due(self.next).then(|| socket(pid)).flatten() {
            let in_detail = is_due(self.next_detail);
            let (sender, answer) = channel();
            self.pending = Some((now, answer));
            // The recording may end before the answer: then nobody takes it.
            std::thread::spawn(move || drop(sender.send(ask(&socket, in_detail))));
        }
        is_first
    }
}

/// The socket of the process's attach listener; `None`: the process has none. In a container the
/// process has another number, and other files.
fn socket(pid: u32) -> Option<PathBuf> {
    let inner = proc_fs::innermost_number(pid)?;
    let socket = PathBuf::from(format!("/proc/{pid}/root/tmp/.java_pid{inner}"));
    socket.exists().then_some(socket)
}

fn ask(socket: &Path, in_detail: bool) -> Result<Answer, String> {
    let answer = |how| answer(socket, how).map_err(|error| error.to_string());
    let regions = in_detail.then(|| answer("detail")).transpose()?;
    let regions = regions.map(|answer| some_of(regions_of(&answer), &answer)).transpose()?;
    let summary = answer("summary")?;
    let categories = some_of(categories_of(&summary), &summary)?;
    Ok(Answer { regions, categories })
}

/// What was found in an answer; an error in the JVM's words if that is nothing.
fn some_of<T>(found: Vec<T>, answer: &str) -> Result<Vec<T>, String> {
    if !found.is_empty() {
        return Ok(found);
    }
    // The first line is a status.
    let said = answer.lines().skip(1).find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    Err(format!("it said: {}", said.trim().chars().take(REFUSAL_CHARACTERS).collect::<String>()))
}

/// The answer to a question in version 1 of the protocol: five words, each ended by a NUL.
fn answer(socket: &Path, how: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("1\0jcmd\0VM.native_memory {how}\0\0\0").as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The reserved ranges of a detailed answer, in order and apart:
///
/// ```text
/// [0x00000000e1e00000 - 0x0000000100000000] reserved 493568KB for Java Heap from
///     [0x00007f1c8c0a3b7a] ReservedSpace::ReservedSpace(...)+0x8a
///         [0x00000000e1e00000 - 0x00000000e3c00000] committed 30720KB from
/// ```
fn regions_of(answer: &str) -> Vec<Region> {
    let region = |line: &str| {
        let (start, end, rest) = range(line)?;
        let (_, purpose) = rest.strip_prefix("reserved ")?.split_once(" for ")?;
        let purpose = purpose.strip_suffix(" from").unwrap_or(purpose).trim();
        Some(Region { start, end, name: format!("JVM: {purpose}") })
    };
    let mut regions: Vec<Region> = answer.lines().filter_map(region).collect();
    regions.sort_by_key(|region| region.start);
    let mut end = 0;
    regions.retain(|region| {
        let follows = region.start >= end;
        end = end.max(region.end);
        follows
    });
    regions.truncate(REGIONS_MAX);
    regions
}

/// "[0xSTART - 0xEND] rest".
fn range(line: &str) -> Option<(u64, u64, &str)> {
    let (range, rest) = line.strip_prefix("[0x")?.split_once("] ")?;
    let (start, end) = range.split_once(" - 0x")?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (start < end).then_some((start, end, rest))
}

/// The categories of a summary that have ranges of addresses:
///
/// ```text
/// -                 Java Heap (reserved=65536KB, committed=65536KB)
///                             (mmap: reserved=65536KB, committed=65536KB)
/// -                    Thread (reserved=14375KB, committed=707KB)
///                             (stack: reserved=14336KB, committed=668KB)
/// ```
fn categories_of(answer: &str) -> Vec<Category> {
    let bytes = |line: &str, field: &str| -> Option<u64> {
        let digits = line.split_once(field)?.1.split_once("KB")?.0;
        digits.parse::<u64>().ok()?.checked_mul(1024)
    };
    let (mut categories, mut name) = (Vec::new(), String::new());
    for line in answer.lines() {
        if let Some((purpose, _)) = line.strip_prefix('-').and_then(|line| line.split_once(" (")) {
            name = format!("JVM: {}", purpose.trim());
        }
        let line = line.trim_start();
        let name = match line {
            _ if line.starts_with("(stack: ") => THREAD_STACK,
            _ if line.starts_with("(mmap: ") => &name,
            _ => continue,
        };
        if let (Some(reserved_bytes), Some(committed_bytes)) =
            (bytes(line, "reserved="), bytes(line, "committed="))
        {
            categories.push(Category { name: name.into(), reserved_bytes, committed_bytes });
        }
    }
    categories
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::net::UnixListener;

    /// Parts of answers of JDK 17 and 25.
    const DETAIL: &str = "0\n\nVirtual memory map:\n \n\
        [0x00000000e1e00000 - 0x0000000100000000] reserved 493568KB for Java Heap from\n\
        \u{20}   [0x00007f1c8c0a3b7a] ReservedHeapSpace::ReservedHeapSpace(unsigned long)+0x8a\n\n\
        \t[0x00000000e1e00000 - 0x00000000e3c00000] committed 30720KB from\n\
        [0x00007f1c70000000 - 0x00007f1c7f000000] reserved 245760KB for Code\n\
        [0x00007f1c68000000 - 0x00007f1c68100000] reserved and committed 1024KB for Thread Stack from\n\
        [0x00007f1c68080000 - 0x00007f1c68200000] reserved 4KB for Overlapping from\n\
        Details:\n\n[0x00007f1c8c0a3b7a] os::malloc(unsigned long)+0x8a\n";
    const SUMMARY: &str = "0\n\nTotal: reserved=1460640KB, committed=88924KB\n       \
        mmap:   reserved=1458320KB, committed=86604KB\n\n\
        -                 Java Heap (reserved=65536KB, committed=65536KB)\n\
        \u{20}               (mmap: reserved=65536KB, committed=65536KB, at peak)\n\n\
        -                    Thread (reserved=14375KB, committed=707KB)\n\
        \u{20}               (stack: reserved=14336KB, committed=668KB, peak=700KB)\n\
        \u{20}               (malloc=24KB #88) (peak=32KB #92)\n\n\
        -                    Symbol (reserved=1187KB, committed=1187KB)\n\
        \u{20}               (malloc=827KB #2361) (at peak)\n";

    #[test]
    fn ranges_have_their_category() {
        let regions = regions_of(DETAIL);
        let kib = |region: &Region| (region.end - region.start) / 1024;
        let rows: Vec<(u64, &str)> =
            regions.iter().map(|region| (kib(region), &*region.name)).collect();
        let expected = [(493_568, "JVM: Java Heap"), (1024, THREAD_STACK), (245_760, "JVM: Code")];
        assert_eq!(rows, expected);
    }

    #[test]
    fn categories_have_their_figures() {
        let categories = categories_of(SUMMARY);
        let rows: Vec<(&str, u64, u64)> = categories
            .iter()
            .map(|of| (of.name.as_str(), of.reserved_bytes / 1024, of.committed_bytes / 1024))
            .collect();
        assert_eq!(rows, [("JVM: Java Heap", 65_536, 65_536), (THREAD_STACK, 14_336, 668)]);
    }

    #[test]
    fn a_refusal_is_in_the_jvms_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let jvm = std::thread::spawn(move || {
            let mut question = [0; 33];
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut question).unwrap();
            stream.write_all(b"0\nNative memory tracking is not enabled\n").unwrap();
            question
        });
        let refusal = ask(&path, true).unwrap_err();
        assert_eq!(&jvm.join().unwrap(), b"1\0jcmd\0VM.native_memory detail\0\0\0");
        assert_eq!(refusal, "it said: Native memory tracking is not enabled");
        assert!(ask(&folder.path().join("nothing"), false).is_err());
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_panic(lines in prop::collection::vec("\\[0x[0-9a-f]{1,17} - 0x[0-9a-f]{1,17}\\] (reserved|committed|reserved and committed) [0-9]{1,4}KB( for [A-Z ]{0,5})?( from)?|-? {0,3}[A-Z]{0,3} \\((mmap: )?reserved=[0-9]{0,20}KB, committed=[0-9]{0,3}KB\\)|\\PC{0,40}", 0..40)) {
            let text = lines.join("\n");
            let regions = regions_of(&text);
            prop_assert!(regions.windows(2).all(|pair| pair[0].end <= pair[1].start));
            prop_assert!(regions.iter().all(|region| region.start < region.end));
            categories_of(&text);
        }
    }
}
