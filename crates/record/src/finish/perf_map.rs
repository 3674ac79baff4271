//! Names of code that a program makes while it runs, from the map that it writes for Linux' perf:
//! `/tmp/perf-PID.map`, a line a function: start and size in hexadecimal digits, then the name
//! (tools/perf/Documentation/jit-interface.txt of Linux).
//!
//! Node, a JVM and CPython write one if they are asked (docs/whole-process.md). The walk finds such
//! frames by their frame pointers.
//!
//! A map has no times. Where one address has had several functions, the last one names it, as in
//! perf. The folder is everybody's: a map counts if it is a file of this user's (or root's),
//! written since the recording began.

use heaplab_trace::tables::Frame;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The longest line that is read; a longer one is left out.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// A return address outside of all modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generated {
    /// The process.
    pub pid: u32,
    /// The return address.
    pub ip: u64,
    /// Its row of frames.
    pub row: u32,
}

/// Names the frames of `generated` by the maps in `folder` that were written at or after `since_s`
/// (Unix time).
pub fn name(frames: &mut [Frame], mut generated: Vec<Generated>, folder: &Path, since_s: u64) {
    generated.sort_unstable();
    for of_process in generated.chunk_by(|one, next| one.pid == next.pid) {
        let path = folder.join(format!("perf-{}.map", of_process[0].pid));
        let Some(map) = open(&path, since_s) else { continue };
        // A map that ends in an error still names the functions before it.
        let _ = name_by(frames, of_process, BufReader::new(map));
    }
}

/// Opens a map that is to be believed.
fn open(path: &Path, since_s: u64) -> Option<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let own = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
    let is_new = metadata.mtime() >= i64::try_from(since_s).ok()?;
    (own && is_new && metadata.is_file()).then_some(file)
}

/// `generated`: of one process, by address.
fn name_by(frames: &mut [Frame], generated: &[Generated], mut map: impl BufRead) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if map.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.len() as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
            map.skip_until(b'\n')?;
            continue;
        }
        let Some((start, end, name)) = function(&line) else { continue };
        // The call lies before the address that it returns to.
        let first = generated.partition_point(|one| one.ip <= start);
        let inside = generated[first..].iter().take_while(|one| one.ip <= end);
        for one in inside {
            if let Some(frame) = frames.get_mut(one.row as usize) {
                *frame = Frame { module: frame.module, address: frame.address, ..named(&name) };
            }
        }
    }
}

/// Start, end and name of a line's function.
fn function(line: &[u8]) -> Option<(u64, u64, String)> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.trim_end_matches(['\n', '\r']).splitn(3, ' ');
    let mut number = || {
        let word = words.next()?;
        u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = words.next().filter(|name| !name.is_empty())?;
    Some((start, start.checked_add(size)?, name.to_owned()))
}

/// Function, file and line in the name that V8 (`JS:*work /srv/app.js:10:5`) or CPython
/// (`py::work:/srv/app.py`) gives; other names are functions as they are.
fn named(name: &str) -> Frame {
    if let Some((function, file)) = name.strip_prefix("py::").and_then(|name| name.split_once(':'))
    {
        return of_file(function, file, 0);
    }
    javascript(name)
        .unwrap_or_else(|| Frame { function: Some(name.to_owned()), ..Frame::default() })
}

fn of_file(function: &str, file: &str, line: u32) -> Frame {
    let function = if function.is_empty() { "(anonymous)" } else { function };
    let file = (!file.is_empty()).then(|| file.to_owned());
    Frame { function: Some(function.to_owned()), file, line, ..Frame::default() }
}

/// V8 names a function by its kind, the mark of the compiler that made its code, its own name and
/// its place.
fn javascript(name: &str) -> Option<Frame> {
    let kinds = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
    let name = kinds.iter().find_map(|kind| name.strip_prefix(kind))?;
    let name = name.strip_prefix(['~', '^', '+', '*', '\'']).unwrap_or(name);
    let (before, column) = name.rsplit_once(':')?;
    column.parse::<u32>().ok()?;
    let (before, line) = before.rsplit_once(':')?;
    let line = line.parse().ok()?;
    // A function's name may have a space (`get length`), and a path may, too.
    let begin =
        ["/", "file:", "node:"].iter().filter_map(|begin| before.find(&format!(" {begin}")));
    let space = begin.min().or_else(|| before.find(' '))?;
    Some(of_file(&before[..space], &before[space + 1..], line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames_by(map: &[u8], addresses: &[u64]) -> Vec<String> {
        let mut frames = vec![Frame::default(); addresses.len()];
        let generated: Vec<Generated> =
            (0..).zip(addresses).map(|(row, ip)| Generated { pid: 7, ip: *ip, row }).collect();
        name_by(&mut frames, &generated, map).unwrap();
        frames.into_iter().map(|frame| frame.function.unwrap_or_default()).collect()
    }

    #[test]
    fn a_return_address_belongs_to_the_call_before_it_and_the_last_line_counts() {
        let map = b"1000 10 first\n1010 0x10 second\nno line\n2000 8 older\n1ff8 10 newer\r\n";
        let addresses = [0x1000, 0x1001, 0x1010, 0x1011, 0x1020, 0x1021, 0x2001];
        let names = ["", "first", "first", "second", "second", "", "newer"];
        assert_eq!(frames_by(map, &addresses), names);
    }

    #[test]
    fn lines_that_are_too_long_cut_or_overflow_are_left_out() {
        let mut map = b"1000 10 ".to_vec();
        map.extend(vec![b'a'; LINE_BYTES_MAX as usize * 2]);
        map.extend(b"\nffffffffffffffff 10 beyond\n1000 \n1000\n1000 10 good");
        assert_eq!(frames_by(&map, &[0x1001]), ["good"]);
    }

    #[test]
    fn names_of_v8_and_cpython_are_taken_apart() {
        let parts = |name| {
            let frame = named(name);
            (frame.function.unwrap(), frame.file.unwrap_or_default(), frame.line)
        };
        let is = |function: &str, file: &str, line| (function.into(), file.into(), line);
        assert_eq!(parts("JS:*work /srv/my app.js:10:5"), is("work", "/srv/my app.js", 10));
        assert_eq!(parts("LazyCompile:~ file:///a.mjs:3:1"), is("(anonymous)", "file:///a.mjs", 3));
        assert_eq!(parts("JS:^get length node:buffer:8:2"), is("get length", "node:buffer", 8));
        assert_eq!(parts("Builtin:ArrayMap"), is("Builtin:ArrayMap", "", 0));
        assert_eq!(parts("JS:*odd"), is("JS:*odd", "", 0));
        assert_eq!(parts("py::C.work:/srv/a.py"), is("C.work", "/srv/a.py", 0));
    }

    #[test]
    fn a_map_from_before_or_behind_a_link_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-7.map");
        std::fs::write(&path, "1000 10 there\n").unwrap();
        let name_at = |pid, since_s| {
            let mut frames = vec![Frame::default()];
            name(&mut frames, vec![Generated { pid, ip: 0x1001, row: 0 }], folder.path(), since_s);
            frames[0].function.clone()
        };
        assert_eq!(name_at(7, 1), Some(String::from("there")));
        assert_eq!(name_at(7, u64::MAX), None);
        assert_eq!(name_at(7, i64::MAX as u64), None);
        std::os::unix::fs::symlink(&path, folder.path().join("perf-8.map")).unwrap();
        assert_eq!(name_at(8, 1), None);
    }
}
