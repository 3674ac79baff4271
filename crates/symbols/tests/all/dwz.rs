//! Debug information that dwz moved from several files into a shared one, against the answers
//! before dwz and against gdb.

use crate::{
    oracle::{Reference, as_oracle, reference_with},
    support::{bare_name, gdb, have, only, ours, run},
};
use std::path::{Path, PathBuf};

const TOOLS: [&str; 7] = ["g++", "nm", "objcopy", "readelf", "addr2line", "dwz", "gdb"];

/// Two programs with common debug information in `shared`, which they know as `name`.
fn dwz(reference: &Reference, name: &str, extra: &[&str]) -> PathBuf {
    for file in ["one", "two"] {
        std::fs::copy(&reference.app, reference.path().join(file)).unwrap();
    }
    run("dwz", &[extra, &["-m", "shared", "-M", name, "one", "two"]].concat(), reference.path());
    reference.path().join("one")
}

fn move_to(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::rename(from, to).unwrap();
}

/// Compares our answers with those before dwz, and gdb's for the functions.
fn check(reference: &Reference, file: &Path, debug_dirs: &[&Path]) -> PathBuf {
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
    report.shared_debug_file.unwrap()
}

#[test]
fn shared_debug_information_is_found_where_gdb_finds_it() {
    if !have(&TOOLS) {
        return;
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let reference = reference_with(&[version]);
        let shared = reference.path().join("shared");
        // Beside the file, by a relative name.
        let app = dwz(&reference, "shared", &[]);
        assert_eq!(check(&reference, &app, &[]), shared.canonicalize().unwrap());
        // The same through a symbolic link to the program: the real folder counts.
        let link = reference.path().join("elsewhere/link");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&app, &link).unwrap();
        check(&reference, &link, &[]);
        // Below a debug folder, by the part after `/.dwz/`.
        let app = dwz(&reference, "/nowhere/.dwz/x86_64/shared.debug", &[]);
        let debug = reference.path().join("debug");
        let below = debug.join(".dwz/x86_64/shared.debug");
        move_to(&shared, &below);
        assert_eq!(check(&reference, &app, &[&debug]), below);
        // By build id.
        let id = crate::support::build_id(&below);
        let by_id = debug.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
        move_to(&below, &by_id);
        assert_eq!(check(&reference, &app, &[&debug]), by_id);
    }
}

#[test]
fn the_links_of_dwarf_5_are_followed() {
    if !have(&TOOLS) {
        return;
    }
    let reference = reference_with(&["-gdwarf-5"]);
    let app = dwz(&reference, "shared", &["--dwarf-5"]);
    let sections = run("readelf", &["-SW", "one"], reference.path());
    assert!(
        sections.contains(" .debug_sup ") && !sections.contains(" .gnu_debugaltlink "),
        "{sections}"
    );
    // gdb 13 does not know them.
    let report = reference.check(&app, &only(&[]));
    assert!(report.shared_debug_file.is_some());
}

#[test]
fn a_separate_debug_file_shares_too() {
    if !have(&TOOLS) {
        return;
    }
    let reference = reference_with(&[]);
    dwz(&reference, "../shared", &[]);
    reference.objcopy(&["--only-keep-debug", "one", "one.debug"]);
    move_to(&reference.path().join("one.debug"), &reference.path().join(".debug/one.debug"));
    reference.objcopy(&[
        "--strip-all",
        &format!("--add-gnu-debuglink={}", reference.path().join(".debug/one.debug").display()),
        "one",
        "stripped",
    ]);
    check(&reference, &reference.path().join("stripped"), &[]);
}

#[test]
fn a_shared_file_that_is_missing_or_of_another_build_is_named() {
    if !have(&TOOLS) {
        return;
    }
    let reference = reference_with(&[]);
    let app = dwz(&reference, "shared", &[]);
    let without = |why: &str| {
        let (answers, report) = ours(&app, "", &only(&[]), &reference.addresses);
        assert!(report.notes.iter().any(|note| note.contains(why)), "{why}: {:?}", report.notes);
        // Lines and symbols are the program's own; a function with a shared name has none, and
        // never another's.
        let answers: Vec<_> = answers.iter().map(|places| as_oracle(places)).collect();
        for (places, expected) in answers.iter().zip(&reference.expected) {
            assert_eq!(
                bare_name(&places.last().unwrap().0),
                bare_name(&expected.last().unwrap().0)
            );
        }
        assert_ne!(answers, reference.expected, "dwz took something out of the program");
        assert_eq!(report.shared_debug_file, None);
        assert_eq!(report.lines, reference.addresses.len());
    };
    let shared = reference.path().join("shared");
    let kept = std::fs::read(&shared).unwrap();
    std::fs::remove_file(&shared).unwrap();
    without("is missing");
    // The shared file of other programs.
    let other = reference_with(&["-O1"]);
    dwz(&other, "shared", &[]);
    std::fs::copy(other.path().join("shared"), &shared).unwrap();
    without("shared debug file of another build");
    std::fs::write(&shared, &kept[..kept.len() / 2]).unwrap();
    without("is missing");
    std::fs::write(&shared, &kept).unwrap();
    check(&reference, &app, &[]);
}
