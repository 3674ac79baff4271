//! Names, lines and inlined functions against `addr2line` of binutils, address by address, on
//! programs compiled here with debug information shipped in every way.

use crate::support::{
    addr2line, base_name, build_id, compile_cpp, functions, have, only, ours, run, section, source,
};
use heaplab_symbols::{ModuleReport, Options, Place};
use std::path::{Path, PathBuf};

pub const BINUTILS: [&str; 5] = ["g++", "addr2line", "nm", "objcopy", "readelf"];

pub fn all_of(range: (u64, u64)) -> Vec<u64> {
    (range.0..range.0 + range.1).collect()
}

pub fn as_oracle(places: &[Place]) -> Vec<(String, String, u32)> {
    let row = |place: &Place| {
        let file = place.file.as_deref().map_or("??", base_name);
        (place.function.clone().unwrap_or("??".into()), file.to_owned(), place.line)
    };
    places.iter().map(row).collect()
}

/// The program with its debug information inside, every address of its own functions, and
/// addr2line's answers.
pub struct Reference {
    folder: tempfile::TempDir,
    pub app: PathBuf,
    pub addresses: Vec<u64>,
    pub expected: Vec<Vec<(String, String, u32)>>,
}

pub fn reference() -> Reference {
    reference_with(&[])
}

pub fn reference_with(extra: &[&str]) -> Reference {
    let folder = tempfile::tempdir().unwrap();
    let app = compile_cpp(folder.path(), extra);
    let ours = ["main", "exported", "_ZL6hiddeni", "_ZN4shop4ItemC2EPKc", "_ZN4shop4manyIlEEPT_i"];
    let functions = functions(&app);
    let addresses: Vec<u64> = ours.iter().flat_map(|name| all_of(functions[*name])).collect();
    let expected = addr2line(&app, &addresses);
    assert!(expected.iter().any(|places| places.len() >= 3), "the compiler inlined two deep");
    Reference { folder, app, addresses, expected }
}

impl Reference {
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// `file` must give the same answers.
    pub fn check(&self, file: &Path, options: &Options) -> ModuleReport {
        let (answers, report) = ours(file, &build_id(file), options, &self.addresses);
        assert!(report.has_debug_information, "{report:?}");
        for ((address, places), expected) in self.addresses.iter().zip(&answers).zip(&self.expected)
        {
            assert_eq!(as_oracle(places), *expected, "at {address:#x}");
        }
        assert_eq!(report.functions, self.addresses.len());
        assert_eq!(
            report.inlined,
            self.expected.iter().map(|places| places.len() - 1).sum::<usize>()
        );
        assert_eq!(report.notes, Vec::<String>::new());
        report
    }

    pub fn objcopy(&self, arguments: &[&str]) {
        run("objcopy", arguments, self.path());
    }

    /// `stripped` and its debug file `app.debug`.
    pub fn split(&self) -> PathBuf {
        self.objcopy(&["--only-keep-debug", "app", "app.debug"]);
        self.objcopy(&["--strip-all", "app", "stripped"]);
        self.path().join("stripped")
    }
}

#[test]
fn debug_information_in_the_file() {
    if !have(&BINUTILS) {
        return;
    }
    let reference = reference();
    reference.check(&reference.app, &only(&[]));
}

#[test]
fn compressed_debug_information() {
    if !have(&BINUTILS) {
        return;
    }
    let reference = reference();
    for format in ["zlib", "zlib-gnu", "zstd"] {
        let name = format!("compressed-{format}");
        if format == "zstd" && !run("objcopy", &["--help"], reference.path()).contains("zstd") {
            eprintln!("skipped: this objcopy does not know zstd");
            continue;
        }
        reference.objcopy(&[&format!("--compress-debug-sections={format}"), "app", &name]);
        reference.check(&reference.path().join(name), &only(&[]));
    }
}

#[test]
fn separate_debug_file_by_link() {
    if !have(&BINUTILS) {
        return;
    }
    let reference = reference();
    reference.split();
    reference.objcopy(&["--add-gnu-debuglink=app.debug", "stripped", "linked"]);
    let linked = reference.path().join("linked");
    reference.check(&linked, &only(&[]));
    std::fs::create_dir(reference.path().join(".debug")).unwrap();
    std::fs::rename(reference.path().join("app.debug"), reference.path().join(".debug/app.debug"))
        .unwrap();
    reference.check(&linked, &only(&[]));
    let elsewhere = reference.path().join("elsewhere");
    std::fs::rename(reference.path().join(".debug"), &elsewhere).unwrap();
    reference.check(&linked, &only(&[&elsewhere]));
}

#[test]
fn separate_debug_file_by_build_id_with_and_without_the_program() {
    if !have(&BINUTILS) {
        return;
    }
    let reference = reference();
    let stripped = reference.split();
    let id = build_id(&reference.app);
    let folder = reference.path().join("debug/.build-id").join(&id[..2]);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::rename(reference.path().join("app.debug"), folder.join(format!("{}.debug", &id[2..])))
        .unwrap();
    let options = only(&[&reference.path().join("debug")]);
    reference.check(&stripped, &options);
    let (answers, report) = ours(Path::new("/gone/app"), &id, &options, &reference.addresses);
    assert!(
        answers
            .iter()
            .zip(&reference.expected)
            .all(|(places, expected)| as_oracle(places) == *expected)
    );
    assert!(
        report.notes[0].contains("cannot be read") && report.notes[1].contains("alone"),
        "{:?}",
        report.notes
    );
}

#[test]
fn another_build_gives_no_names() {
    if !have(&BINUTILS) {
        return;
    }
    let reference = reference();
    let other = "00112233445566778899aabbccddeeff00112233";
    let (answers, report) = ours(&reference.app, other, &only(&[]), &reference.addresses);
    assert!(answers.iter().all(Vec::is_empty));
    assert!(
        report.notes[0].contains("another build") && report.notes[0].contains(other),
        "{:?}",
        report.notes
    );
    // Another build's debug file is not used for this one.
    let folder = reference.path().join("other");
    std::fs::create_dir(&folder).unwrap();
    compile_cpp(&folder, &["-DOTHER", "-O1"]);
    let stripped = reference.split();
    std::fs::rename(folder.join("app"), reference.path().join("stripped.debug")).unwrap();
    let (answers, report) = ours(&stripped, "", &only(&[reference.path()]), &reference.addresses);
    assert!(answers.iter().all(Vec::is_empty));
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("stripped.debug is the debug file of another build")),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_stripped_library_names_only_what_it_exports() {
    if !have(&BINUTILS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let full = compile_cpp(folder.path(), &["-shared", "-fPIC", "-fvisibility=hidden"]);
    run("objcopy", &["--strip-all", "app", "stripped.so"], folder.path());
    let (start, length) = functions(&full)["exported"];
    let addresses = all_of(section(&full, ".text"));
    let (answers, report) =
        ours(&folder.path().join("stripped.so"), &build_id(&full), &only(&[]), &addresses);
    for (address, places) in addresses.iter().zip(&answers) {
        let names: Vec<_> = places.iter().filter_map(|place| place.function.as_deref()).collect();
        let is_inside = (start..start + length).contains(address);
        assert_eq!(names, if is_inside { vec!["exported"] } else { vec![] }, "at {address:#x}");
    }
    assert_eq!(report.functions as u64, length);
    assert!(!report.has_debug_information);
}

#[test]
fn symbols_alone_cover_their_own_bytes_and_assembler_without_size_nothing() {
    if !have(&BINUTILS) {
        return;
    }
    let reference = reference();
    reference.objcopy(&["--strip-debug", "app", "symbols"]);
    let symbols = reference.path().join("symbols");
    let sized = functions(&symbols);
    let addresses = all_of(section(&symbols, ".text"));
    let (answers, _) = ours(&symbols, &build_id(&symbols), &only(&[]), &addresses);
    let mut covered = 0;
    for (address, places) in addresses.iter().zip(&answers) {
        let is_covered =
            sized.values().any(|(start, length)| (*start..start + length).contains(address));
        assert_eq!(!places.is_empty(), is_covered, "at {address:#x}: {places:?}");
        covered += usize::from(is_covered);
    }
    assert!(
        covered > 0 && covered < addresses.len(),
        "there are gaps, and the function `bare` is one"
    );
}

#[test]
fn functions_that_the_linker_threw_away_name_nothing() {
    if !have(&BINUTILS) {
        return;
    }
    // Large enough to cover the real code if the symbol began at 0.
    let folder = tempfile::tempdir().unwrap();
    let body: String =
        (0..4000).map(|number| format!("  x = x * {number} + array[x & 7];\n")).collect();
    let text = format!(
        "volatile int array[8];\nint dead(int x) {{\n{body}  return x;\n}}\nint main(int argc, char **argv) {{ return array[argc]; }}\n"
    );
    std::fs::write(folder.path().join("dead.c"), text).unwrap();
    run(
        "gcc",
        &[
            "-g",
            "-O1",
            "-ffunction-sections",
            "-Wl,--gc-sections",
            "-Wl,--build-id",
            "-o",
            "app",
            "dead.c",
        ],
        folder.path(),
    );
    let app = folder.path().join("app");
    assert!(!functions(&app).contains_key("dead"), "the linker dropped it");
    let (answers, _) = ours(&app, "", &only(&[]), &all_of(section(&app, ".text")));
    let names: Vec<_> =
        answers.iter().flatten().filter_map(|place| place.function.as_deref()).collect();
    assert!(names.contains(&"main") && !names.contains(&"dead"), "{names:?}");
}

#[test]
fn a_rust_program() {
    if !have(&["rustc", "addr2line", "nm"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = source("inlined.rs");
    run("rustc", &["-O", "-g", "-o", "app", program.to_str().unwrap()], folder.path());
    let app = folder.path().join("app");
    let functions = functions(&app);
    let own: Vec<_> = functions.iter().filter(|(name, _)| name.contains("7inlined")).collect();
    let addresses: Vec<u64> = own.iter().flat_map(|(_, range)| all_of(**range)).collect();
    assert!(addresses.len() > 200, "{own:?}");
    let (answers, _) = ours(&app, "", &only(&[]), &addresses);
    for ((address, places), expected) in
        addresses.iter().zip(&answers).zip(addr2line(&app, &addresses))
    {
        assert_eq!(as_oracle(places), expected, "at {address:#x}");
    }
}
