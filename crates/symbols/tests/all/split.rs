//! Split DWARF, as `.dwo` files and as packages, against the same program with everything inside
//! and against gdb.

use crate::{
    oracle::{Reference, all_of, as_oracle, reference_with},
    support::{bare_name, build_id, functions, gdb, have, only, ours, run, section, source},
};
use heaplab_symbols::{Image, Resolver};
use proptest::prelude::*;
use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

const TOOLS: [&str; 7] = ["g++", "nm", "objcopy", "objdump", "readelf", "addr2line", "gdb"];

/// The reference's program again, as `split`, with its debug information in `split-inlined.dwo`.
fn split(reference: &Reference, how: &[&str]) -> PathBuf {
    let program = source("inlined.cpp");
    let fixed =
        ["-O2", "-g", "-gsplit-dwarf", "-Wl,--build-id", "-o", "split", program.to_str().unwrap()];
    run("g++", &[&fixed[..], how].concat(), reference.path());
    let split = reference.path().join("split");
    assert_eq!(functions(&split), functions(&reference.app), "the same code");
    assert!(reference.path().join("split-inlined.dwo").exists());
    split
}

/// Compares our answers with those of the whole program, and gdb's for the functions.
fn check(reference: &Reference, file: &Path, debug_dirs: &[&Path]) -> (Option<PathBuf>, usize) {
    let report = reference.check(file, &only(debug_dirs));
    for ((address, expected), judge) in reference
        .addresses
        .iter()
        .zip(&reference.expected)
        .zip(gdb(file, debug_dirs, &reference.addresses))
    {
        let expected: Vec<String> =
            expected.iter().map(|(function, ..)| bare_name(function)).collect();
        assert_eq!(judge.bare_functions(), expected, "gdb at {address:#x}");
    }
    (report.split_package, report.split_files)
}

fn move_to(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::rename(from, to).unwrap();
}

#[test]
fn dwo_files_are_found_where_gdb_finds_them() {
    if !have(&TOOLS) {
        return;
    }
    for how in [
        &["-gdwarf-4"][..],
        &["-gdwarf-5"],
        &["-gdwarf-4", "-fdebug-types-section"],
        &["-gdwarf-4", "-gz=zlib"],
    ] {
        // Without separate types, which addr2line of binutils does not read.
        let reference = reference_with(&how[..1]);
        let app = split(&reference, how);
        // In the compiler's folder.
        assert_eq!(check(&reference, &app, &[]), (None, 1), "{how:?}");
        let dwo = reference.path().join("split-inlined.dwo");
        // In a debug folder.
        let debug = reference.path().join("debug");
        move_to(&dwo, &debug.join("split-inlined.dwo"));
        check(&reference, &app, &[&debug]);
        // Beside a program that was moved; gdb does not look there.
        let (moved, debug) =
            (reference.path().join("moved/split"), debug.join("split-inlined.dwo"));
        move_to(&app, &moved);
        move_to(&debug, &reference.path().join("moved/split-inlined.dwo"));
        assert_eq!(reference.check(&moved, &only(&[])).split_files, 1);
    }
}

#[test]
fn a_dwo_file_with_type_units_before_the_unit() {
    if !have(&TOOLS) {
        return;
    }
    let reference = reference_with(&["-gdwarf-5"]);
    let app = split(&reference, &["-gdwarf-5", "-fdebug-types-section"]);
    // Each in a section of its own, all of one name; gdb 13 refuses such a file.
    let sections = run("readelf", &["-SW", "split-inlined.dwo"], reference.path())
        .matches(" .debug_info.dwo ")
        .count();
    assert!(sections >= 3, "{sections}");
    assert_eq!(reference.check(&app, &only(&[])).split_files, 1);
}

#[test]
fn packages_are_found_where_gdb_finds_them() {
    if !have(&TOOLS) || !have(&["dwp"]) {
        return;
    }
    // The dwp of binutils 2.40 packs only DWARF 4; the test of Rust programs has packages of
    // DWARF 5.
    let reference = reference_with(&["-gdwarf-4"]);
    let app = split(&reference, &["-gdwarf-4"]);
    run("dwp", &["-e", "split"], reference.path());
    std::fs::remove_file(reference.path().join("split-inlined.dwo")).unwrap();
    let package = reference.path().join("split.dwp");
    assert_eq!(check(&reference, &app, &[]), (Some(package.clone()), 0));
    // Through a symbolic link to the program.
    let link = reference.path().join("links/link");
    std::fs::create_dir(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&app, &link).unwrap();
    check(&reference, &link, &[]);
    // In a debug folder.
    let debug = reference.path().join("debug");
    move_to(&package, &debug.join("split.dwp"));
    check(&reference, &app, &[&debug]);
    // Beside a separate debug file, under the program's name.
    reference.objcopy(&["--only-keep-debug", "split", "split.debug"]);
    reference.objcopy(&["--strip-all", "--add-gnu-debuglink=split.debug", "split"]);
    move_to(&reference.path().join("split.debug"), &reference.path().join(".debug/split.debug"));
    move_to(&debug.join("split.dwp"), &reference.path().join(".debug/split.dwp"));
    assert_eq!(
        check(&reference, &app, &[]).0,
        Some(reference.path().canonicalize().unwrap().join(".debug/split.dwp"))
    );
}

#[test]
fn rust_programs_with_split_debug_information() {
    if !have(&["rustc", "nm", "readelf", "gdb"]) {
        return;
    }
    let program = source("inlined.rs");
    for version in ["4", "5"] {
        let folder = tempfile::tempdir().unwrap();
        let dwarf = format!("-Cdwarf-version={version}");
        let compile = |name: &str, kind: &str| {
            let split = format!("-Csplit-debuginfo={kind}");
            let arguments = [
                "-O",
                "-g",
                "-Ccodegen-units=4",
                "-Clink-arg=-Wl,--build-id",
                &dwarf,
                &split,
                "--crate-name=inlined",
                "-o",
                name,
                program.to_str().unwrap(),
            ];
            run("rustc", &arguments, folder.path());
            folder.path().join(name)
        };
        let whole = compile("whole", "off");
        let addresses = own_addresses(&whole);
        // The same code at the same addresses: the whole program's answers hold for the split ones.
        let (expected, _) = ours(&whole, &build_id(&whole), &only(&[]), &addresses);
        for kind in ["unpacked", "packed"] {
            let app = compile(kind, kind);
            assert_eq!(
                section(&whole, ".text"),
                section(&app, ".text"),
                "splitting does not change the code"
            );
            let (answers, report) = ours(&app, &build_id(&app), &only(&[]), &addresses);
            assert_eq!(report.notes, Vec::<String>::new());
            assert_eq!(
                (report.split_package.is_some(), report.split_files > 0),
                (kind == "packed", kind == "unpacked")
            );
            for ((address, places), expected) in addresses.iter().zip(&answers).zip(&expected) {
                assert_eq!(places, expected, "at {address:#x}, DWARF {version} {kind}");
            }
            // gdb 13 crashes on a package of DWARF 5 by rustc.
            let judged = if (version, kind) == ("5", "packed") {
                Vec::new()
            } else {
                gdb(&app, &[], &addresses)
            };
            for ((address, places), judge) in addresses.iter().zip(&answers).zip(judged) {
                // The two tools name parts of a path differently: `{impl#1}` stands for
                // `<str as alloc::borrow::ToOwned>`.
                let names: Vec<_> = places
                    .iter()
                    .map(|place| last_part(place.function.as_deref().unwrap_or_default()))
                    .collect();
                assert_eq!(
                    judge.functions.iter().map(|name| last_part(name)).collect::<Vec<_>>(),
                    names,
                    "gdb at {address:#x}"
                );
            }
        }
    }
}

/// Every address of the program's own functions.
fn own_addresses(app: &Path) -> Vec<u64> {
    let functions = functions(app);
    let own = functions.iter().filter(|(name, _)| name.contains("7inlined"));
    let addresses: Vec<u64> = own.flat_map(|(_, range)| all_of(*range)).collect();
    assert!(addresses.len() > 200, "{functions:?}");
    addresses
}

/// `from` of `<alloc::string::String as core::convert::From<&str>>::from` and of
/// `core::convert::from<&str>`.
fn last_part(name: &str) -> &str {
    let (mut depth, mut start, mut end) = (0, 0, name.len());
    for (at, letter) in name.char_indices() {
        match letter {
            '<' => {
                if depth == 0 && at > start {
                    end = at;
                }
                depth += 1;
            }
            '>' => depth -= 1,
            ':' if depth == 0 => (start, end) = (at + 1, name.len()),
            _ => {}
        }
    }
    // `{{closure}}` and `{closure#0}` are the same.
    if name[start..end].starts_with('{') { "{closure}" } else { &name[start..end] }
}

/// Lines and the outermost functions are still there, and a sentence names the missing part.
fn check_without(reference: &Reference, app: &Path, why: &[&str]) {
    let (answers, report) = ours(app, "", &only(&[]), &reference.addresses);
    for why in why {
        assert!(report.notes.iter().any(|note| note.contains(why)), "{why}: {:?}", report.notes);
    }
    for ((address, places), expected) in
        reference.addresses.iter().zip(&answers).zip(&reference.expected)
    {
        let [place] = &places[..] else { panic!("{places:?} at {address:#x}") };
        assert_eq!(
            place.function.as_deref().map(bare_name),
            expected.last().map(|(name, ..)| bare_name(name)),
            "at {address:#x}"
        );
        assert_eq!(place.line, expected[0].2);
    }
    assert_eq!((report.split_files, report.split_package), (0, None));
}

#[test]
fn what_is_missing_damaged_or_of_another_build_is_named() {
    if !have(&TOOLS) || !have(&["dwp"]) {
        return;
    }
    let reference = reference_with(&["-gdwarf-4"]);
    let app = split(&reference, &["-gdwarf-4"]);
    let (dwo, package) =
        (reference.path().join("split-inlined.dwo"), reference.path().join("split.dwp"));
    run("dwp", &["-e", "split"], reference.path());
    let (good, packed) = (std::fs::read(&dwo).unwrap(), std::fs::read(&package).unwrap());
    std::fs::remove_file(&package).unwrap();
    std::fs::remove_file(&dwo).unwrap();
    check_without(
        &reference,
        &app,
        &["1 of 1 units is missing, the first split-inlined.dwo compiled in /"],
    );
    // Another build of the same source.
    let other = reference_with(&["-O1", "-gdwarf-4"]);
    split(&other, &["-O1", "-gdwarf-4", "-DOTHER"]);
    run("dwp", &["-e", "split"], other.path());
    std::fs::copy(other.path().join("split-inlined.dwo"), &dwo).unwrap();
    std::fs::copy(other.path().join("split.dwp"), &package).unwrap();
    check_without(
        &reference,
        &app,
        &[
            "split-inlined.dwo holds another build of its unit",
            "split.dwp holds no unit of this build",
            "1 of 1 units",
        ],
    );
    // Not a package at all, and truncated files.
    std::fs::write(&package, &good).unwrap();
    std::fs::write(&dwo, &good[..good.len() / 2]).unwrap();
    check_without(&reference, &app, &["is no package", "not a readable ELF file"]);
    std::fs::write(&package, &packed[..packed.len() / 2]).unwrap();
    std::fs::create_dir_all(reference.path().join("none")).unwrap();
    std::fs::remove_file(&dwo).unwrap();
    std::fs::create_dir(&dwo).unwrap();
    check_without(&reference, &app, &["not a readable ELF file", "is not a regular file"]);
    // An old package does not hide a good file.
    std::fs::remove_dir(&dwo).unwrap();
    std::fs::write(&dwo, &good).unwrap();
    std::fs::copy(other.path().join("split.dwp"), &package).unwrap();
    let (answers, report) = ours(&app, "", &only(&[]), &reference.addresses);
    assert!(
        answers
            .iter()
            .zip(&reference.expected)
            .all(|(places, expected)| as_oracle(places) == *expected)
    );
    assert_eq!(report.split_files, 1);
}

/// A program, the units that its skeletons want, and files of split DWARF with these units.
struct Split {
    app: Vec<u8>,
    addresses: Vec<u64>,
    files: Vec<Vec<u8>>,
}

static SPLIT: LazyLock<Vec<Split>> = LazyLock::new(|| {
    if !have(&TOOLS) || !have(&["dwp"]) {
        return Vec::new();
    }
    let made = |version: &str| {
        let reference = reference_with(&[version]);
        let app = split(&reference, &[version]);
        let mut files = vec![std::fs::read(reference.path().join("split-inlined.dwo")).unwrap()];
        if version == "-gdwarf-4" {
            run("dwp", &["-e", "split"], reference.path());
            files.push(std::fs::read(reference.path().join("split.dwp")).unwrap());
        }
        Split { app: std::fs::read(app).unwrap(), addresses: reference.addresses.clone(), files }
    };
    vec![made("-gdwarf-4"), made("-gdwarf-5")]
});

/// Resolves everything with `file`, if readable.
fn try_all(split: &Split, file: Vec<u8>) -> usize {
    let app = Image::parse(split.app.clone()).unwrap();
    let Ok(file) = Image::parse(file) else { return 0 };
    let mut resolver = Resolver::new(&app, None, None);
    let wanted: Vec<u64> =
        resolver.split_units(&split.addresses).iter().map(|unit| unit.id).collect();
    let _ = resolver.add_split(&wanted, &file);
    split.addresses.iter().map(|address| resolver.resolve(*address).len()).sum()
}

#[test]
fn split_files_cut_anywhere_are_refused_or_give_less() {
    for split in SPLIT.iter() {
        for file in &split.files {
            assert!(try_all(split, file.clone()) > split.addresses.len(), "inlined functions");
            for length in (0..file.len()).step_by(211) {
                try_all(split, file[..length].to_vec());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn changed_split_files_do_no_harm(which in any::<prop::sample::Index>(), changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let files: Vec<_> = SPLIT.iter().flat_map(|split| split.files.iter().map(move |file| (split, file))).collect();
        if !files.is_empty() {
            let (split, file) = files[which.index(files.len())];
            let mut file = file.clone();
            for (place, value) in changes {
                let place = place.index(file.len());
                file[place] = value;
            }
            try_all(split, file);
        }
    }
}
