//! Decides from a process's executable, before any signal, whether the process is Node.
//!
//! `SIGUSR1` asks Node for its inspector and means something else to every other program: an
//! interactive bash, for one, catches the signal and ends. That a process catches `SIGUSR1` is
//! therefore not enough. The file is read through `/proc/PID/exe`, which the kernel resolves
//! itself: the file may be renamed, deleted, or lie in another container.
//!
//! A dynamic executable is Node where its dynamic symbols name Node's embedding interface. Node and
//! Electron export that interface for addons; a Node whose runtime is `libnode.so` imports the
//! interface. N-API alone is no sign: Bun and Deno export N-API too, and JavaScriptCore uses
//! `SIGUSR1` for its garbage collector. A static executable has no such symbols and is judged by
//! the words that Node's inspector prints.
//!
//! Source: Node's `src/node.h` (the names), `src/inspector_agent.cc` (the words and the signal).

use memchr::memmem;
use object::{Object, ObjectSection, ReadCache};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};

/// What names of Node's embedding interface begin with: `node::Start`, `node::CreateEnvironment`,
/// `node::MakeCallback`.
const INTERFACE: [&[u8]; 3] =
    [b"\0_ZN4node5StartE", b"\0_ZN4node17CreateEnvironmentE", b"\0_ZN4node12MakeCallbackE"];
/// Texts that a static executable must hold, all of them, to count as Node.
const WORDS: [&[u8]; 3] =
    [b"Starting inspector on %s:%d failed: %s", b"For help, see: %s", b"NODE_OPTIONS"];
/// Largest table of names that is read, and largest executable that is searched for words.
const NAMES_BYTES_MAX: u64 = 256 << 20;
const EXECUTABLE_BYTES_MAX: u64 = 1 << 30;
/// Bytes that a search for words reads at once.
const PIECE_BYTES: usize = 1 << 20;
/// Descendants of a process that are looked at, and those that a message names.
const DESCENDANTS_MAX: usize = 1000;
const NAMED_MAX: usize = 4;

/// Whether the executable of `pid` is Node.
///
/// # Errors
/// The process is gone or belongs to another user.
pub(crate) fn is_node(pid: u32) -> io::Result<bool> {
    Ok(is_node_file(File::open(format!("/proc/{pid}/exe"))?))
}

fn is_node_file(file: File) -> bool {
    match has_interface(&file) {
        Some(is_node) => is_node,
        None => holds_words(file).unwrap_or(false),
    }
}

/// Whether the dynamic symbols name the interface; `None` where there are none.
fn has_interface(file: &File) -> Option<bool> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    let names = elf.section_by_name(".dynstr").filter(|names| names.size() <= NAMES_BYTES_MAX)?;
    let names = names.data().ok()?;
    Some(INTERFACE.iter().any(|name| memmem::find(names, name).is_some()))
}

/// Whether an executable without dynamic symbols holds the words.
fn holds_words(mut file: File) -> io::Result<bool> {
    file.rewind()?;
    let mut head = [0; 4];
    file.read_exact(&mut head)?;
    if head != *b"\x7fELF" || file.metadata()?.len() > EXECUTABLE_BYTES_MAX {
        return Ok(false);
    }
    let overlap = WORDS.iter().map(|words| words.len()).max().unwrap_or(0);
    let (mut piece, mut kept, mut found) = (vec![0; PIECE_BYTES], 0, [false; WORDS.len()]);
    loop {
        let length = kept + file.read(&mut piece[kept..])?;
        if length == kept {
            return Ok(found.iter().all(|found| *found));
        }
        for (found, words) in found.iter_mut().zip(WORDS) {
            *found = *found || memmem::find(&piece[..length], words).is_some();
        }
        kept = length.min(overlap);
        piece.copy_within(length - kept..length, 0);
    }
}

/// Names the kind of a process that is not Node, and the remedy. One sentence, to follow the
/// process's number.
pub(crate) fn refusal(pid: u32, name: &str) -> String {
    let executable = fs::read_link(format!("/proc/{pid}/exe"))
        .map_or_else(|_| name.to_owned(), |path| path.display().to_string());
    let children = node_descendants(pid);
    let advice = if children.is_empty() {
        String::from(
            "name the number of a Node process; if this program contains Node, start it with --inspect and name the inspector's address instead of the number",
        )
    } else {
        let list: Vec<String> = children
            .iter()
            .take(NAMED_MAX)
            .map(|child| format!("--node {child} ({})", command_line(*child)))
            .collect();
        let more = if children.len() > NAMED_MAX { ", ..." } else { "" };
        format!("it started Node: {}{more}", list.join(", "))
    };
    format!("this is {name} ({executable}), not Node, so heaplab sends nothing to it; {advice}")
}

/// The processes below `pid` that are Node.
fn node_descendants(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some(parent) = parent(process) {
            children.entry(parent).or_default().push(process);
        }
    }
    let (mut descendants, mut at) = (vec![pid], 0);
    while let Some(process) = descendants.get(at).filter(|_| at < DESCENDANTS_MAX) {
        let mut below = children.remove(process).unwrap_or_default();
        below.sort_unstable();
        descendants.extend(below);
        at += 1;
    }
    descendants
        .into_iter()
        .skip(1)
        .take(DESCENDANTS_MAX)
        .filter(|process| is_node(*process).unwrap_or(false))
        .collect()
}

/// The process that started `pid`. The command's name, in parentheses, may hold anything.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn command_line(pid: u32) -> String {
    const SHOWN_CHARS: usize = 60;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&line).trim_end_matches('\0').replace(['\0', '\n'], " ");
    let is_cut = words.chars().count() > SHOWN_CHARS;
    words.chars().take(SHOWN_CHARS).chain(is_cut.then_some('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(pieces: &[&[u8]]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        pieces.iter().for_each(|piece| file.write_all(piece).unwrap());
        file.rewind().unwrap();
        file
    }

    #[test]
    fn a_static_executable_needs_all_the_words_wherever_they_lie() {
        // The first words lie across the end of the first piece that is read.
        let filling = vec![0; PIECE_BYTES - 10];
        let head: &[u8] = b"\x7fELF";
        assert!(is_node_file(file(&[head, &filling, WORDS[0], WORDS[1], &filling, WORDS[2]])));
        assert!(!is_node_file(file(&[head, &filling, WORDS[0], &filling, WORDS[2]])));
        assert!(!is_node_file(file(&[b"#!sh", WORDS[0], WORDS[1], WORDS[2]])), "not a program");
        assert!(!is_node_file(file(&[])));
    }

    #[test]
    fn programs_that_only_speak_of_node_are_not_node() {
        // This test holds the words itself, and has dynamic symbols.
        assert!(!is_node(std::process::id()).unwrap());
        assert_eq!(is_node(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
