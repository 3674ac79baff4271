//! Names for the frames of a recording: groups the addresses by module, resolves them, and rebuilds
//! the frame table.
//!
//! A stack node refers to the innermost function at its return address; `inlined_into` leads to the
//! functions around an inlined one, always in a later row (`Tables::frames_of` relies on this
//! order). Rows of frames keep their numbers, so stacks and a bundle's other files stay unchanged.
//! Running it again is safe: a frame of a missing module keeps its names.

pub mod listing;

use heaplab_symbols::{ModuleReport, Options, Place, resolve_module};
use heaplab_trace::tables::{Frame, Tables};
use std::{borrow::Cow, collections::BTreeMap, ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// The result for one module file (all its mappings in all processes together).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SymbolizedModule {
    /// Path as recorded.
    pub path: String,
    /// Build id as recorded.
    pub build_id: String,
    /// Frames (return addresses) that lie in it.
    pub frames: usize,
    /// The result.
    pub report: ModuleReport,
}

/// Resolves every frame in a module; returns the results, the module with the most frames first.
/// Frames without new names keep the old.
pub fn symbolize(tables: &mut Tables, options: &Options) -> Vec<SymbolizedModule> {
    let physical = physical_frames(tables);
    let mut answers: BTreeMap<u32, Vec<Place>> = BTreeMap::new();
    let mut reports = Vec::new();
    for ((path, build_id), rows) in by_module(tables, &physical) {
        let mut addresses: Vec<u64> =
            rows.iter().map(|row| call_address(&tables.frames[*row as usize])).collect();
        // Neighbours share debug information units; a module loaded by many processes has each
        // address once.
        addresses.sort_unstable();
        addresses.dedup();
        let mut places: Vec<Vec<Place>> = vec![Vec::new(); addresses.len()];
        let report =
            resolve_module(&file_path(path), build_id, options, &addresses, |number, found| {
                places[number] = found
            });
        for row in &rows {
            let number = addresses
                .binary_search(&call_address(&tables.frames[*row as usize]))
                .unwrap_or_default();
            if !places[number].is_empty() {
                answers.insert(*row, places[number].clone());
            }
        }
        reports.push(SymbolizedModule {
            path: path.into(),
            build_id: build_id.into(),
            frames: rows.len(),
            report,
        });
    }
    reports.sort_by(|a, b| b.frames.cmp(&a.frames).then_with(|| a.path.cmp(&b.path)));
    rebuild(&mut tables.frames, &physical, &answers);
    reports
}

/// The address of the call that returns to the frame's address.
fn call_address(frame: &Frame) -> u64 {
    frame.address.saturating_sub(1)
}

/// Which frames stand for a return address rather than for the caller of an inlined function.
fn physical_frames(tables: &Tables) -> Vec<bool> {
    let mut physical = vec![true; tables.frames.len()];
    for frame in &tables.frames {
        if let Some(outer) = frame.inlined_into.and_then(|outer| physical.get_mut(outer as usize)) {
            *outer = false;
        }
    }
    for node in tables.stacks.iter().skip(1) {
        if let Some(frame) = physical.get_mut(node.frame as usize) {
            *frame = true;
        }
    }
    physical
}

/// Rows of physical frames by the file of their module.
fn by_module<'a>(tables: &'a Tables, physical: &[bool]) -> BTreeMap<(&'a str, &'a str), Vec<u32>> {
    let mut modules: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for (row, frame) in tables.frames.iter().enumerate().filter(|(row, _)| physical[*row]) {
        if let Some(module) = frame.module.and_then(|module| tables.modules.get(module as usize)) {
            modules
                .entry((module.path.as_str(), module.build_id.as_str()))
                .or_default()
                .push(row as u32);
        }
    }
    modules
}

/// Replaces the frames' old names by `answers`. Rows keep their numbers, so stacks stay valid.
/// Functions inlined at an address are appended; earlier appended rows that nothing needs any more
/// are removed from the end.
fn rebuild(frames: &mut Vec<Frame>, physical: &[bool], answers: &BTreeMap<u32, Vec<Place>>) {
    let mut used = physical.to_vec();
    for (row, frame) in frames.iter().enumerate() {
        // Frames lead only to later rows: one pass reaches all.
        let outer = frame.inlined_into.map(|outer| outer as usize).filter(|outer| *outer > row);
        if let Some(outer) = outer.filter(|_| used[row] && !answers.contains_key(&(row as u32)))
            && let Some(outer) = used.get_mut(outer)
        {
            *outer = true;
        }
    }
    frames.truncate(used.iter().rposition(|used| *used).map_or(0, |last| last + 1));
    for (frame, _) in frames.iter_mut().zip(&used).filter(|(_, used)| !**used) {
        *frame = Frame::default();
    }
    for (row, places) in answers {
        let frame = frames[*row as usize].clone();
        let first = frames.len() as u32;
        for (depth, place) in places.iter().enumerate() {
            let named = Frame {
                module: frame.module,
                address: frame.address,
                function: place.function.clone(),
                file: place.file.clone(),
                line: place.line,
                inlined_into: (depth + 1 < places.len()).then(|| first + depth as u32),
            };
            match depth {
                0 => frames[*row as usize] = named,
                _ => frames.push(named),
            }
        }
    }
}

/// The path of a module as bytes. Recordings write bytes that are not UTF-8 as `%XX`; an existing
/// file of the literal name comes first.
fn file_path(recorded: &str) -> Cow<'_, Path> {
    if !recorded.contains('%') || Path::new(recorded).exists() {
        return Cow::Borrowed(Path::new(recorded));
    }
    let mut bytes = Vec::with_capacity(recorded.len());
    let mut rest = recorded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code =
            code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    Cow::Owned(Path::new(OsStr::from_bytes(&bytes)).to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::{Module, StackNode};

    fn place(function: &str) -> Place {
        Place { function: Some(function.into()), file: None, line: 1 }
    }

    fn frame(address: u64, inlined_into: Option<u32>) -> Frame {
        Frame { module: Some(0), address, inlined_into, ..Frame::default() }
    }

    fn tables(frames: Vec<Frame>, stacks: &[u32]) -> Tables {
        let nodes = stacks.iter().map(|frame| StackNode { parent: 0, frame: *frame });
        Tables {
            frames,
            stacks: std::iter::once(StackNode::default()).chain(nodes).collect(),
            ..Tables::default()
        }
    }

    fn names(tables: &Tables, stack: u32) -> Vec<String> {
        tables
            .frames_of(stack)
            .map(|row| tables.frames[row as usize].function.clone().unwrap_or_default())
            .collect()
    }

    #[test]
    fn inlined_functions_are_appended_and_lead_outwards() {
        let mut tables = tables(vec![frame(16, None), frame(32, None)], &[0, 1]);
        let physical = physical_frames(&tables);
        let answers = BTreeMap::from([
            (0, vec![place("inner"), place("middle"), place("outer")]),
            (1, vec![place("other"), place("main")]),
        ]);
        rebuild(&mut tables.frames, &physical, &answers);
        assert_eq!(names(&tables, 1), ["inner", "middle", "outer"]);
        assert_eq!(names(&tables, 2), ["other", "main"]);
        assert_eq!(tables.frames.len(), 5);
        assert!(
            tables
                .frames
                .iter()
                .enumerate()
                .all(|(row, frame)| frame.inlined_into.is_none_or(|outer| outer as usize > row))
        );
    }

    #[test]
    fn a_second_run_replaces_the_chains_of_the_first_and_keeps_the_others() {
        let mut tables = tables(vec![frame(16, None), frame(32, None)], &[0, 1]);
        let physical = physical_frames(&tables);
        let answers =
            BTreeMap::from([(0, vec![place("c"), place("d")]), (1, vec![place("a"), place("b")])]);
        rebuild(&mut tables.frames, &physical, &answers);
        let physical = physical_frames(&tables);
        assert_eq!(physical, [true, true, false, false]);
        rebuild(&mut tables.frames, &physical, &BTreeMap::from([(1, vec![place("x")])]));
        assert_eq!(names(&tables, 1), ["c", "d"]);
        assert_eq!(names(&tables, 2), ["x"]);
        assert_eq!(tables.frames.len(), 3, "the chain that nobody uses any more is gone");
    }

    #[test]
    fn damaged_references_do_no_harm() {
        let mut tables =
            tables(vec![frame(16, Some(0)), frame(32, Some(77)), frame(48, Some(1))], &[0, 99, 2]);
        let physical = physical_frames(&tables);
        rebuild(&mut tables.frames, &physical, &BTreeMap::from([(2, vec![place("f")])]));
        assert_eq!(names(&tables, 2), Vec::<String>::new());
        assert_eq!(names(&tables, 3), ["f"]);
    }

    #[test]
    fn this_test_finds_its_own_name() {
        let executable = std::env::current_exe().unwrap();
        let path = executable.to_str().unwrap().to_owned();
        let symbol = this_test_finds_its_own_name as fn() as usize as u64;
        let base = load_bias(&path);
        let mut tables = tables(vec![frame(symbol - base + 2, None)], &[0]);
        tables.modules.push(Module { path, ..Module::default() });
        let modules = symbolize(&mut tables, &Options::default());
        assert_eq!((modules[0].frames, modules[0].report.functions), (1, 1), "{modules:?}");
        let all = names(&tables, 1).join(" ");
        assert!(all.contains("this_test_finds_its_own_name"), "{all}");
    }

    /// Address of the executable's first page: its load bias, because position-independent files
    /// begin at 0.
    fn load_bias(path: &str) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with(path)).unwrap();
        u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()
    }

    #[test]
    fn percent_codes_are_undone_only_where_no_such_file_exists() {
        assert_eq!(file_path("/usr/bin/a"), Path::new("/usr/bin/a"));
        assert_eq!(file_path("/no%ff%2").as_os_str().as_bytes(), b"/no\xff%2");
        let folder = tempfile::Builder::new().suffix("%41").tempdir().unwrap();
        assert_eq!(file_path(folder.path().to_str().unwrap()), folder.path());
    }
}
