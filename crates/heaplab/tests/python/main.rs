//! `heaplab record --python` on real interpreters: each stack against what Python itself says of
//! the same moment.

use heaplab_trace::EventSource;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::tables::Tables;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Blocks of `truth.py` have so many bytes and a multiple of 32.
const SIZE: u64 = 1_000_003;

/// A Python frame: function, line, file.
type Place = (String, u32, String);

/// The CPythons of this machine: Debian's, and those of a version manager.
fn pythons() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/usr/bin/python3")];
    let managed = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv/versions"));
    let entries = managed.and_then(|folder| folder.read_dir().ok());
    found.extend(
        entries.into_iter().flatten().flatten().map(|entry| entry.path().join("bin/python3")),
    );
    found.retain(|python| version(python).is_some_and(|minor| (8..=13).contains(&minor)));
    found.sort();
    if found.is_empty() {
        heaplab_oracle::skip("/usr/bin/python3 is not installed");
    }
    found
}

/// Which 3.N it is.
fn version(python: &Path) -> Option<u32> {
    let print = "import sys; print(sys.version_info[1])";
    let output = Command::new(python).args(["-c", print]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn heaplab(folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Records `python PROGRAM`; what it printed, and the bundle.
fn record(folder: &Path, options: &[&str], python: &Path, program: &[&str]) -> (Output, Bundle) {
    let before = ["record", "--quiet", "--force", "-o", "x.heaplab"];
    let python = ["--", python.to_str().unwrap()];
    let output = heaplab(folder, &[&before[..], options, &python, program].concat());
    (output, Bundle::open(&folder.join("x.heaplab")).unwrap())
}

/// The stacks of requests of the sizes that the program names.
fn stacks_by_size(bundle: &Bundle) -> BTreeMap<u64, Vec<u32>> {
    let mut stacks: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    let mut source = bundle.events(Selection::default()).unwrap();
    source
        .for_each(|event| {
            if event.size > SIZE && (event.size - 1 - SIZE).is_multiple_of(32) && event.counts() {
                // A bytearray asks for one byte more than it has.
                stacks.entry(event.size - 1).or_default().push(event.stack);
            }
            Ok(())
        })
        .unwrap();
    stacks
}

fn is_python(tables: &Tables, row: u32) -> bool {
    let frame = &tables.frames[row as usize];
    frame.module.is_none() && frame.function.is_some()
}

/// The Python frames of a stack, innermost first.
fn places(tables: &Tables, stack: u32) -> Vec<Place> {
    tables
        .frames_of(stack)
        .filter(|row| is_python(tables, *row))
        .map(|row| {
            let frame = &tables.frames[row as usize];
            (frame.function.clone().unwrap(), frame.line, frame.file.clone().unwrap_or_default())
        })
        .collect()
}

/// What the processes of `truth.py` printed: the parent's sizes last.
fn truth(output: &Output) -> BTreeMap<u64, Vec<Place>> {
    let mut all = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let said: serde_json::Value = serde_json::from_str(line).unwrap();
        let sizes: BTreeMap<u64, Vec<Place>> =
            serde_json::from_value(said["size"].clone()).unwrap();
        all.extend(sizes);
    }
    all
}

#[test]
fn stacks_have_the_frames_that_python_names() {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/truth.py");
    for python in pythons() {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--python", "--stack-depth", "1024", "--no-symbols"];
        let (output, bundle) = record(folder.path(), &options, &python, &["-u", program]);
        assert_eq!(bundle.meta().losses, Vec::<String>::new(), "{}", python.display());
        let (truth, found) = (truth(&output), stacks_by_size(&bundle));
        assert!(truth.len() > 90, "{} blocks", truth.len());
        let mut wrong = Vec::new();
        for (size, said) in &truth {
            let stacks = found.get(size).unwrap_or_else(|| panic!("no block of {size} bytes"));
            let found = stacks.iter().map(|stack| places(bundle.tables(), *stack));
            wrong.extend(found.filter(|found| found != said).map(|found| (size, said, found)));
        }
        assert!(wrong.is_empty(), "{}: {} wrong, {:#?}", python.display(), wrong.len(), wrong[0]);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Python,
    Loop,
    Other,
}

/// What stands at each return address of a stack, innermost first.
fn kinds(tables: &Tables, mut stack: u32) -> Vec<Kind> {
    let mut kinds = Vec::new();
    while stack != 0 {
        let node = tables.stacks[stack as usize];
        let inlined = std::iter::successors(Some(node.frame), |row| {
            tables.frames[*row as usize].inlined_into
        });
        let mut names = inlined.map(|row| tables.frame_label(row));
        kinds.push(match is_python(tables, node.frame) {
            true => Kind::Python,
            false if names.any(|name| name.starts_with("_PyEval_EvalFrameDefault")) => Kind::Loop,
            false => Kind::Other,
        });
        stack = node.parent;
    }
    kinds
}

/// Stacks with all frames: each loop of the interpreter has its Python frames just inside of it.
#[test]
fn python_frames_stand_where_their_loop_does() {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/truth.py");
    // One version whose loops leave marks, and one without: looking names up takes long.
    for python in pythons().into_iter().take(2) {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--python=all", "--stack-depth", "1024"];
        let (_, bundle) = record(folder.path(), &options, &python, &["-u", program]);
        let tables = bundle.tables();
        let mut loops = 0;
        for stack in stacks_by_size(&bundle).into_values().flatten() {
            let kinds = kinds(tables, stack);
            let is_right = kinds.windows(2).all(|two| match two {
                [Kind::Python, next] => matches!(next, Kind::Python | Kind::Loop),
                [before, Kind::Loop] => *before == Kind::Python,
                _ => true,
            });
            assert!(is_right, "{}: {kinds:?}", python.display());
            loops += kinds.iter().filter(|kind| **kind == Kind::Loop).count();
        }
        assert!(loops > 100);
    }
}

#[test]
fn code_that_is_made_again_has_its_own_lines() {
    // Eight functions of one name, file, first line and size, each compiled where others died. The
    // size of a block says in which line of `made` it is asked for.
    let program = "
import random
random.seed(1)
texts = ['def made():\\n' + '\\n' * line + ' bytearray(size)\\nmade()\\ndel made' for line in range(8)]
for number in range(1000):
    line = random.randrange(8)
    exec(compile(texts[line], '<made>', 'exec'), {'size': 1000003 + 32 * (8 * number + line)})
";
    for python in pythons() {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--python", "--no-symbols"];
        let (_, bundle) = record(folder.path(), &options, &python, &["-c", program]);
        let found = stacks_by_size(&bundle);
        assert_eq!(found.len(), 1000, "{}", python.display());
        for (size, stacks) in found {
            let line = 2 + (size - SIZE) / 32 % 8;
            let expected = ("made".to_owned(), line as u32, "<made>".to_owned());
            assert_eq!(places(bundle.tables(), stacks[0])[0], expected, "{}", python.display());
        }
    }
}
