//! The programs that recorded processes started, read from the spool's file `execs` (`layout.h`,
//! `crates/preload/c/exec.c`), and which of them are missing from the recording.
//!
//! A static, 32-bit, musl or privileged program never loads the recorder. Looking at running
//! processes ([`crate::unrecorded`]) finds the long-lived ones; most children end too soon. So a
//! process writes a line before it starts a program, and finishing compares. A started program
//! loads the recorder before its first instruction of its own. So either an image of that process
//! begins between this line and the process's next one, or the program was not recorded. The
//! program's file tells the reason ([`crate::diagnose`]).
//!
//! Only the C library knows the process number of the shell of `system()` and `popen()`. The
//! shell's line names its parent; an image of the shell with this parent answers the line (or with
//! a parent that is not recorded, if the shell outlived its own).
//!
//! A program that loads the recorder is seen however it was started: it makes its own image. A
//! program that does not leaves no line if started as follows, and is then seen only while it runs
//! ([`crate::unrecorded`]):
//! - by a system call that its parent made without the C library's `syscall()` (assembly, Go's
//!   runtime);
//! - by `wordexp()`, or by C library functions that start helpers of their own;
//! - by a program that is not recorded, such as a static shell.
//!
//! For the program that heaplab started, the name at its end is compared as well.

use crate::control::Refused;
use crate::diagnose::{self, Obstacle};
use crate::image::Image;
use crate::spool::note::Note;
use heaplab_preload::layout;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The file's name in the spool.
pub const EXECS_FILE: &str = "execs";
/// Most bytes read of the file.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Most programs named; the others are only counted.
const NAMED_MAX: usize = 32;
/// Bytes that the kernel keeps of a program's name.
const NAME_BYTES: usize = 15;

/// A process became this program, or tried to without a noted failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// The process, or its parent.
    pub pid: u32,
    /// The process was a child of `pid`; its own number is unknown.
    pub is_child: bool,
    /// Counter just before the start.
    pub counter: u64,
    /// Its environment loads the recorder.
    pub asks: bool,
    /// The program's file.
    pub path: PathBuf,
}

/// The lines of a file that no later line retracts, by process and time. Skips malformed lines.
pub fn parse(content: &[u8]) -> Vec<Exec> {
    let mut execs = Vec::new();
    let mut failed = HashSet::new();
    for line in content.split(|byte| *byte == b'\n') {
        let Some((kind, exec)) = parse_line(line) else { continue };
        match kind {
            b'f' => drop(failed.insert((exec.pid, exec.counter))),
            _ => execs.push(exec),
        }
    }
    execs.retain(|exec| !failed.contains(&(exec.pid, exec.counter)));
    execs.sort_by_key(|exec| (exec.pid, exec.counter));
    execs
}

fn parse_line(line: &[u8]) -> Option<(u8, Exec)> {
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let kind = *words.next()?.first().filter(|kind| b"encdf".contains(kind))?;
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
    let (counter, pid) = (number()?, u32::try_from(number()?).ok()?);
    let path = match (kind, words.next()) {
        (b'f', None) => PathBuf::new(),
        (b'f', Some(_)) | (_, None) => return None,
        (_, Some(word)) => PathBuf::from(OsString::from_vec(unescape(word)?)),
    };
    let (is_child, asks) = (matches!(kind, b'c' | b'd'), matches!(kind, b'e' | b'c'));
    Some((kind, Exec { pid, is_child, counter, asks, path }))
}

fn unescape(word: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.iter();
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    while let Some(byte) = rest.next() {
        bytes.push(if *byte == b'%' {
            (digit(rest.next())? << 4 | digit(rest.next())?) as u8
        } else {
            *byte
        });
    }
    Some(bytes)
}

/// Reads a spool's lines; an older heaplab's spool has no such file.
pub fn read(spool: &Path) -> Vec<Exec> {
    let mut content = Vec::new();
    if let Ok(file) = File::open(spool.join(EXECS_FILE)) {
        let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut content);
    }
    parse(&content)
}

/// The execs without an image.
pub fn unattached<'a>(execs: &'a [Exec], images: &BTreeMap<(u32, u32), Image>) -> Vec<&'a Exec> {
    let (children, own): (Vec<&Exec>, Vec<&Exec>) = execs.iter().partition(|exec| exec.is_child);
    let mut attached = HashSet::new();
    let mut unattached: Vec<&Exec> = Vec::new();
    for (place, exec) in own.iter().enumerate() {
        let until = own
            .get(place + 1)
            .filter(|next| next.pid == exec.pid)
            .map_or(u64::MAX, |next| next.counter);
        let of_process = images
            .range((exec.pid, 0)..=(exec.pid, u32::MAX))
            .filter(|(_, image)| image.began != layout::BEGAN_FORK);
        match of_process
            .into_iter()
            .find(|(_, image)| (exec.counter..until).contains(&image.begin_counter))
        {
            Some((key, _)) => drop(attached.insert(*key)),
            None => unattached.push(exec),
        }
    }
    unattached.extend(unattached_children(children, images, &attached));
    unattached
}

/// The children without an image. If a process started several at a time, the lines do not tell
/// which image is whose, but their number is known: each child takes the earliest possible image.
fn unattached_children<'a>(
    mut children: Vec<&'a Exec>,
    images: &BTreeMap<(u32, u32), Image>,
    attached: &HashSet<(u32, u32)>,
) -> Vec<&'a Exec> {
    let mut free: Vec<((u32, u32), &Image)> = images
        .iter()
        .filter(|(key, image)| image.began == layout::BEGAN_STARTED && !attached.contains(key))
        .map(|(key, image)| (*key, image))
        .collect();
    free.sort_by_key(|(_, image)| image.begin_counter);
    let is_known = |pid: u32| images.range((pid, 0)..=(pid, u32::MAX)).next().is_some();
    let real: HashMap<&Path, PathBuf> = children
        .iter()
        .map(|exec| {
            (exec.path.as_path(), exec.path.canonicalize().unwrap_or_else(|_| exec.path.clone()))
        })
        .collect();
    // First those with the recorder in their environment: a child that could not be recorded takes
    // no image from them.
    children.sort_by_key(|exec| (!exec.asks, exec.counter));
    children.retain(|exec| {
        let is_it = |image: &Image, of_parent: bool| {
            let parent = if of_parent { image.ppid == exec.pid } else { !is_known(image.ppid) };
            parent
                && image.begin_counter >= exec.counter
                && image.executable == real[exec.path.as_path()].as_os_str().as_bytes()
        };
        let found = [true, false]
            .into_iter()
            .find_map(|of_parent| free.iter().position(|(_, image)| is_it(image, of_parent)));
        found.map(|place| free.remove(place)).is_none()
    });
    children
}

/// Why no image came of the exec: the process's own report (`refused`), the obstacle in its file,
/// or how it was started.
pub fn reason(exec: &Exec, search: Option<&std::ffi::OsStr>, refused: Option<Refused>) -> String {
    if let Some(refused) = refused.filter(|refused| refused.pid == exec.pid && !exec.is_child) {
        return refused.reason();
    }
    match diagnose::obstacle(&exec.path, search) {
        // AddressSanitizer does not end a program without the recorder.
        Some(obstacle)
            if !is_own_malloc(&obstacle) && (exec.asks || !obstacle.ends_with_asan_options()) =>
        {
            obstacle.to_string()
        }
        _ if !exec.asks => String::from(
            "was started without LD_PRELOAD in its environment: the starting program had removed it",
        ),
        _ if !exec.path.exists() => String::from("did not load the recorder, and its file is gone"),
        _ => refused.map_or_else(
            || String::from("did not load the recorder: it ended before, or could not"),
            |refused| {
                format!(
                    "{} (by the report of the last of {} such processes)",
                    refused.reason(),
                    refused.count
                )
            },
        ),
    }
}

/// Such a program loads the recorder, but never calls it.
fn is_own_malloc(obstacle: &Obstacle) -> bool {
    match obstacle {
        Obstacle::OwnMalloc { .. } | Obstacle::Sanitizer(_) => true,
        Obstacle::Interpreter(_, inner) => is_own_malloc(inner),
        _ => false,
    }
}

/// The unrecorded programs: a sentence for each program and reason.
#[derive(Debug, Default)]
pub struct Unseen {
    programs: BTreeMap<(Vec<u8>, String), Vec<Who>>,
}

/// The unrecorded process.
#[derive(Clone, Copy, Debug)]
enum Who {
    Process(u32),
    ChildOf(u32),
}

impl Unseen {
    /// From the notes of looks at processes, the lines of execs, and the images. `started`: the
    /// program that heaplab started itself; its obstacle is reported separately.
    pub fn new(
        notes: &[Note],
        execs: &[Exec],
        images: &BTreeMap<(u32, u32), Image>,
        refused: Option<Refused>,
    ) -> Unseen {
        let mut unseen = Unseen::default();
        let mut looked_at: HashMap<u32, Vec<&str>> = HashMap::new();
        // Children without a number in their line: a look at them running has their number, but
        // they have no line of their own.
        let numbered: HashSet<u32> =
            execs.iter().filter(|exec| !exec.is_child).map(|exec| exec.pid).collect();
        let mut nameless: Vec<&str> = Vec::new();
        for note in notes {
            if let Note::Unrecorded { pid, executable, reason, .. } = note {
                looked_at.entry(*pid).or_default().push(executable);
                nameless.extend(Some(executable.as_str()).filter(|_| !numbered.contains(pid)));
                unseen.add(executable.as_bytes(), reason.clone(), Who::Process(*pid));
            }
        }
        let search = std::env::var_os("PATH");
        let mut reasons: HashMap<(&Path, bool, bool), String> = HashMap::new();
        for exec in unattached(execs, images) {
            let told = if exec.is_child {
                let seen = nameless.iter().position(|told| is_same_program(&exec.path, told));
                seen.map(|place| nameless.swap_remove(place)).is_some()
            } else {
                looked_at
                    .get(&exec.pid)
                    .is_some_and(|told| told.iter().any(|told| is_same_program(&exec.path, told)))
            };
            if !told {
                let itself =
                    !exec.is_child && refused.is_some_and(|refused| refused.pid == exec.pid);
                let reason = reasons
                    .entry((&exec.path, exec.asks, itself))
                    .or_insert_with(|| reason(exec, search.as_deref(), refused));
                let who =
                    if exec.is_child { Who::ChildOf(exec.pid) } else { Who::Process(exec.pid) };
                unseen.add(exec.path.as_os_str().as_bytes(), reason.clone(), who);
            }
        }
        let started = notes
            .iter()
            .find_map(|note| if let Note::Started { pid } = note { Some((*pid, 0)) } else { None });
        let mut own_malloc: HashMap<&[u8], Option<String>> = HashMap::new();
        for (key, image) in images
            .iter()
            .filter(|(key, image)| Some(**key) != started && image.began != layout::BEGAN_FORK)
        {
            let look = || {
                diagnose::obstacle(Path::new(std::ffi::OsStr::from_bytes(&image.executable)), None)
                    .filter(is_own_malloc)
            };
            let obstacle = own_malloc
                .entry(&image.executable)
                .or_insert_with(|| look().map(|obstacle| obstacle.to_string()));
            if let Some(reason) = obstacle {
                unseen.add(&image.executable, reason.clone(), Who::Process(key.0));
            }
        }
        unseen
    }

    fn add(&mut self, executable: &[u8], reason: String, who: Who) {
        self.programs.entry((executable.to_vec(), reason)).or_default().push(who);
    }

    /// A sentence each, the most frequent first.
    pub fn sentences(&self) -> Vec<String> {
        let mut programs: Vec<_> = self.programs.iter().collect();
        programs.sort_by_key(|(_, pids)| std::cmp::Reverse(pids.len()));
        let mut sentences: Vec<String> = programs
            .iter()
            .take(NAMED_MAX)
            .map(|(program, pids)| sentence(program, pids))
            .collect();
        if let Some(others) = programs.get(NAMED_MAX..).filter(|others| !others.is_empty()) {
            let processes: usize = others.iter().map(|(_, pids)| pids.len()).sum();
            sentences.push(format!(
                "{processes} processes of {} other programs were not recorded either",
                others.len()
            ));
        }
        sentences
    }
}

fn sentence((executable, reason): &(Vec<u8>, String), processes: &[Who]) -> String {
    let executable = crate::finish::tables::text_of(executable);
    match processes {
        [Who::Process(pid)] => {
            format!("process {pid} ({executable}) was not recorded: it {reason}")
        }
        [Who::ChildOf(pid)] => {
            format!("a child of process {pid} ({executable}) was not recorded: it {reason}")
        }
        _ => {
            format!(
                "{} processes of {executable} were not recorded: each {reason}",
                processes.len()
            )
        }
    }
}

/// Whether a look at a running process saw this program; the look has the file, or at least the
/// start of the name.
fn is_same_program(path: &Path, seen: &str) -> bool {
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name[..name.len().min(NAME_BYTES)].to_vec()
    };
    let is_script = || {
        matches!(
            diagnose::obstacle(path, std::env::var_os("PATH").as_deref()),
            Some(Obstacle::Interpreter(..))
        )
    };
    name(path) == name(Path::new(seen))
        || path.canonicalize().is_ok_and(|real| name(&real) == name(Path::new(seen)))
        || is_script()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(pid: u32, seq: u32, began: u32, begin_counter: u64) -> ((u32, u32), Image) {
        ((pid, seq), Image { pid, seq, began, begin_counter, ..Image::default() })
    }

    #[test]
    fn lines_are_read_whatever_stands_between_them() {
        let content = b"e 20 7 /bin/b\nn 10 7 /a%20%25%FF\nf 30 7\nx 1 1 /x\ne 30 7 /bin/c\ne 5 99999999999 /d\ne 5\n\ne 1 8 /torn%2";
        let execs = parse(content);
        let expected = [(10, false, &b"/a %\xff"[..]), (20, true, b"/bin/b")];
        let read: Vec<_> = execs
            .iter()
            .map(|exec| (exec.counter, exec.asks, exec.path.as_os_str().as_bytes()))
            .collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_program_without_an_image_of_its_own_is_unattached() {
        let execs = parse(b"e 10 7 /a\ne 20 7 /b\ne 30 7 /c\ne 10 8 /d\ne 10 9 /e\n");
        let images = BTreeMap::from([
            image(7, 0, layout::BEGAN_STARTED, 12),
            image(7, 1, layout::BEGAN_EXEC, 31),
            image(8, 0, layout::BEGAN_FORK, 11),
            image(9, 0, layout::BEGAN_STARTED, 9),
        ]);
        let paths: Vec<_> =
            unattached(&execs, &images).iter().map(|exec| exec.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/b", "/d", "/e"]);
    }

    /// A shell belongs to its parent's line; a program that a shell became, or a shell of another
    /// process, does not.
    #[test]
    fn children_without_a_number_take_the_images_that_may_be_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let shell = folder.path().canonicalize().unwrap().join("shell");
        std::fs::write(&shell, b"").unwrap();
        let shell = shell.to_str().unwrap();
        let child = |pid, ppid, begin_counter, executable: &str| {
            let (key, mut image) = image(pid, 0, layout::BEGAN_STARTED, begin_counter);
            (image.ppid, image.executable) = (ppid, executable.as_bytes().to_vec());
            (key, image)
        };
        let images = BTreeMap::from([
            child(7, 1, 1, "/bin/a"),
            child(8, 1, 1, shell),
            child(20, 7, 11, shell),
            child(21, 8, 12, shell),
            child(22, 7, 31, "/bin/a"),
            child(23, 1, 41, shell),
            child(24, 7, 61, shell),
        ]);
        // 24 has a line of its own. The one with a cleaned environment comes last, whatever its
        // time.
        let content = format!(
            "d 5 7 {shell}\nc 10 7 {shell}\nc 30 7 {shell}\nc 40 7 {shell}\nc 50 7 {shell}\nf 50 7\ne 60 24 {shell}\n"
        );
        let execs = parse(content.as_bytes());
        let left: Vec<_> =
            unattached(&execs, &images).iter().map(|exec| (exec.counter, exec.asks)).collect();
        assert_eq!(left, [(40, true), (5, false)]);
        let notes = [Note::Unrecorded {
            pid: 30,
            executable: String::from(shell),
            reason: String::from("is static"),
            is_unread: false,
        }];
        let sentences = Unseen::new(&notes, &execs, &images, None).sentences();
        let one = format!(
            "a child of process 7 ({shell}) was not recorded: it was started without LD_PRELOAD"
        );
        assert!(
            sentences.len() == 2 && sentences.iter().any(|text| text.starts_with(&one)),
            "{sentences:?}"
        );
    }

    #[test]
    fn what_a_process_said_itself_is_its_reason() {
        let execs = parse(b"e 1 4 /bin/sh\ne 1 5 /bin/sh\n");
        let refused =
            Refused { count: 2, pid: 5, errno: libc::EFBIG, step: layout::STEP_PROCESS_FILE };
        let sentences = Unseen::new(&[], &execs, &BTreeMap::new(), Some(refused)).sentences();
        assert!(
            sentences.len() == 2 && sentences.iter().all(|text| text.contains("RLIMIT_FSIZE")),
            "{sentences:?}"
        );
        assert!(
            sentences
                .iter()
                .any(|text| text.ends_with("(by the report of the last of 2 such processes)")),
            "{sentences:?}"
        );
    }

    #[test]
    fn many_of_one_program_are_one_sentence() {
        let execs = parse(b"n 1 3 /no/such/file\nn 1 4 /no/such/file\nn 1 5 /no/such/file\nn 1 6 /no/such/file\ne 1 7 /no/other\n");
        let notes = [Note::Unrecorded {
            pid: 6,
            executable: String::from("/no/such/file"),
            reason: String::from("is static"),
            is_unread: false,
        }];
        let unseen = Unseen::new(&notes, &execs, &BTreeMap::new(), None);
        let expected = [
            "3 processes of /no/such/file were not recorded: each was started without LD_PRELOAD in its environment: the starting program had removed it",
            "process 7 (/no/other) was not recorded: it did not load the recorder, and its file is gone",
            "process 6 (/no/such/file) was not recorded: it is static",
        ];
        assert_eq!(unseen.sentences(), expected);
    }
}
