//! Programs compiled for a test, and other tools' answers about them.

use heaplab_symbols::{ModuleReport, Options, Place, resolve_module};
use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Whether all `programs` are installed.
pub fn have(programs: &[&str]) -> bool {
    programs.iter().all(|program| heaplab_oracle::has(program))
}

/// A program of tests/programs.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Runs a command, which must succeed, and returns its output.
pub fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles tests/programs/inlined.cpp to `app` in `folder`, optimised and with debug information.
pub fn compile_cpp(folder: &Path, extra: &[&str]) -> PathBuf {
    let source = source("inlined.cpp");
    let mut arguments = vec!["-O2", "-g", "-Wl,--build-id", "-o", "app", source.to_str().unwrap()];
    arguments.extend(extra);
    run("g++", &arguments, folder);
    folder.join("app")
}

/// The sized functions of a file by name, from `nm`: first address and length.
pub fn functions(file: &Path) -> BTreeMap<String, (u64, u64)> {
    let listing = run("nm", &["-S", file.to_str().unwrap()], Path::new("/"));
    let row = |line: &str| {
        let [address, size, kind, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        "tTwWi".contains(kind).then_some(())?;
        Some((name.to_owned(), (number(address)?, number(size)?)))
    };
    listing.lines().filter_map(row).collect()
}

/// First address and length of a section.
pub fn section(file: &Path, name: &str) -> (u64, u64) {
    let listing = run("readelf", &["-S", "-W", file.to_str().unwrap()], Path::new("/"));
    let line = listing.lines().find(|line| line.contains(&format!(" {name} "))).unwrap();
    let words: Vec<&str> = line.split(']').nth(1).unwrap().split_whitespace().collect();
    (u64::from_str_radix(words[2], 16).unwrap(), u64::from_str_radix(words[4], 16).unwrap())
}

/// The answers of `addr2line` of binutils for each address: function, base name of the file, line;
/// innermost first.
pub fn addr2line(file: &Path, addresses: &[u64]) -> Vec<Vec<(String, String, u32)>> {
    let mut child = Command::new("addr2line")
        .args(["-afCi", "-e", file.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let asked: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut answers = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
            continue;
        }
        let (file, number) = lines.next().unwrap().rsplit_once(':').unwrap();
        let number = number.split(' ').next().unwrap().parse().unwrap_or(0);
        let answer: &mut Vec<_> = answers.last_mut().unwrap();
        answer.push((line.to_owned(), base_name(file).to_owned(), number));
    }
    assert_eq!(answers.len(), addresses.len());
    answers
}

/// The last part of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Our answers for each address, and for the module.
pub fn ours(
    file: &Path,
    build_id: &str,
    options: &Options,
    addresses: &[u64],
) -> (Vec<Vec<Place>>, ModuleReport) {
    let mut answers = vec![Vec::new(); addresses.len()];
    let report = resolve_module(file, build_id, options, addresses, |number, places| {
        answers[number] = places
    });
    (answers, report)
}

/// No debug folders but these.
pub fn only(debug_dirs: &[&Path]) -> Options {
    Options { debug_dirs: debug_dirs.iter().map(|dir| dir.to_path_buf()).collect() }
}

/// The build id that `readelf` prints.
pub fn build_id(file: &Path) -> String {
    let notes = run("readelf", &["-n", file.to_str().unwrap()], Path::new("/"));
    notes.split("Build ID: ").nth(1).unwrap().lines().next().unwrap().trim().to_owned()
}

/// gdb's answer for an address.
pub struct GdbAnswer {
    /// The functions at the address, the innermost first, in gdb's spelling.
    pub functions: Vec<String>,
    /// The symbol at the address, without parameters; `None`: none.
    pub symbol: Option<String>,
}

impl GdbAnswer {
    pub fn bare_functions(&self) -> Vec<String> {
        self.functions.iter().map(|name| bare_name(name)).collect()
    }
}

/// gdb's answers for each address of `file`, with only `debug_dirs`.
pub fn gdb(file: &Path, debug_dirs: &[&Path], addresses: &[u64]) -> Vec<GdbAnswer> {
    let asked: String = addresses.iter().map(|address| format!("{address:x}\n")).collect();
    let mut list = tempfile::NamedTempFile::new().unwrap();
    list.write_all(asked.as_bytes()).unwrap();
    let dirs = debug_dirs.iter().map(|dir| dir.to_str().unwrap()).collect::<Vec<_>>().join(":");
    let settings = [
        "set debuginfod enabled off".to_owned(),
        format!("set debug-file-directory {dirs}"),
        format!("set $addresses = \"{}\"", list.path().display()),
        format!("file {}", file.display()),
    ];
    let mut arguments = vec!["-batch", "-nx", "-nh", "-q"];
    settings.iter().for_each(|setting| arguments.extend(["-ex", setting]));
    let script = source("frames.py");
    arguments.extend(["-x", script.to_str().unwrap()]);
    let text = run("gdb", &arguments, file.parent().unwrap());
    let answers: Vec<GdbAnswer> = text.lines().filter_map(gdb_answer).collect();
    assert_eq!(answers.len(), addresses.len(), "{text}");
    answers
}

fn gdb_answer(line: &str) -> Option<GdbAnswer> {
    let words: Vec<&str> = line.strip_prefix('@')?.split('\t').collect();
    let (symbol, functions) = words.split_last()?;
    let symbol = symbol.rsplit_once(" + ").map_or(*symbol, |(name, _)| name);
    let symbol = (!symbol.starts_with("No symbol matches")).then(|| bare_name(symbol));
    Some(GdbAnswer { functions: functions.iter().map(|name| (*name).to_owned()).collect(), symbol })
}

/// A function's name without its parameters and type, which only some tools write, and with other
/// spaces.
pub fn bare_name(name: &str) -> String {
    name.split('(').next().and_then(|name| name.rsplit(' ').next()).unwrap_or_default().to_owned()
}
