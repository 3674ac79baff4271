//! Children too short-lived for a look that never load the recorder: each is in the bundle's
//! losses, with the reason.

mod common;

use common::{compile, options, record};
use heaplab_record::{execs, session};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder by the kernel's name for it: a look at a running program gives the same name.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let kept = tempfile::tempdir().unwrap();
    let real = kept.path().canonicalize().unwrap();
    (kept, real)
}

/// The losses that mention `program`.
fn about<'a>(losses: &'a [String], program: &Path) -> Vec<&'a str> {
    let name = program.to_string_lossy().into_owned();
    losses.iter().map(String::as_str).filter(|loss| loss.contains(&name)).collect()
}

#[test]
fn every_way_to_start_a_program_is_seen() {
    let (_kept, folder) = folder();
    let versions = concat!(
        "-Wl,--version-script=",
        env!("CARGO_MANIFEST_DIR"),
        "/tests/programs/pidfd_spawn.map"
    );
    let Some(library) =
        compile(&folder, "pidfd_spawn", "cc", &["-shared", "-fPIC", versions, "-ldl"])
    else {
        return;
    };
    let Some(starters) = compile(&folder, "starters", "cc", &[library.to_str().unwrap()]) else {
        return;
    };
    let strange = folder.join("caf\u{e9} 100%");
    std::fs::create_dir(&strange).unwrap();
    let Some(small) = compile(&strange, "small", "cc", &["-static"]) else { return };
    let recording = record(&options(&folder, &[&starters, &small]));
    assert_eq!(
        recording.recorded.status.and_then(|status| status.code()),
        Some(0),
        "it is as it would be unrecorded"
    );
    let expected =
        format!("17 processes of {} were not recorded: each is statically linked", small.display());
    let losses = &recording.meta.losses;
    assert!(
        losses.iter().any(|loss| loss.starts_with(&expected)),
        "{losses:?} {:?}",
        execs::read(&recording.recorded.spool)
    );
    assert_eq!(losses.len(), 1, "what failed to start is no loss: {losses:?}");
    // The same with a program that can be recorded.
    std::fs::remove_dir_all(&recording.recorded.spool).unwrap();
    let Some(small) = compile(&strange, "small", "cc", &[]) else { return };
    let recording = record(&options(&folder, &[&starters, &small]));
    assert_eq!(recording.recorded.status.and_then(|status| status.code()), Some(0));
    assert_eq!(recording.meta.losses, [""; 0]);
    let of_small =
        recording.tables.processes.iter().filter(|process| process.executable.ends_with("/small"));
    assert_eq!(of_small.count(), 17);
}

#[test]
fn short_children_are_told_with_the_reason() {
    let (_kept, folder) = folder();
    let cases: [(&str, &str, &[&str], &str); 4] = [
        ("small", "cc", &["-static"], "is statically linked"),
        ("own_malloc", "cc", &["-fno-builtin", "-rdynamic"], "defines malloc itself"),
        ("small", "cc", &["-m32"], "is a 32-bit program"),
        ("small", "musl-gcc", &[], "uses musl's dynamic linker"),
    ];
    for (number, (name, compiler, flags, reason)) in cases.into_iter().enumerate() {
        let inside = folder.join(number.to_string());
        std::fs::create_dir(&inside).unwrap();
        let Some(program) = compile(&inside, name, compiler, flags) else { continue };
        let recording =
            record(&options(&inside, &[&"sh", &"-c", &"\"$0\"; \"$0\"; \"$0\"; exit 4", &program]));
        assert_eq!(recording.recorded.status.and_then(|status| status.code()), Some(4));
        let told = about(&recording.meta.losses, &program).join("\n");
        assert!(told.contains(reason), "{name} {flags:?}: {:?}", recording.meta.losses);
    }
}

#[test]
fn a_cleaned_environment_is_told() {
    let (_kept, folder) = folder();
    let Some(program) = compile(&folder, "small", "cc", &[]) else { return };
    let recording = record(&options(
        &folder,
        &[&"sh", &"-c", &"env -i \"$0\"; env -i \"$0\"; exit 4", &program],
    ));
    let told = about(&recording.meta.losses, &program).join("\n");
    assert!(told.contains("was started without LD_PRELOAD"), "{:?}", recording.meta.losses);
    assert_eq!(
        recording
            .recorded
            .unrecorded
            .iter()
            .filter(|process| process.pid == recording.recorded.pid)
            .count(),
        0
    );
}

#[test]
fn a_shell_that_the_c_library_starts_is_told() {
    let (_kept, folder) = folder();
    let Some(shells) = compile(&folder, "shells", "cc", &[]) else { return };
    let recording = record(&options(&folder, &[&shells]));
    assert_eq!(
        recording.recorded.status.and_then(|status| status.code()),
        Some(0),
        "it is as it would be unrecorded"
    );
    let [told] = &recording.meta.losses[..] else { panic!("{:?}", recording.meta.losses) };
    assert!(
        told.starts_with(
            "4 processes of /bin/sh were not recorded: each was started without LD_PRELOAD"
        ),
        "{told}"
    );
    let executables: Vec<_> =
        recording.tables.processes.iter().map(|process| process.executable.as_str()).collect();
    assert_eq!(executables.len(), 2, "the program and the first shell: {executables:?}");
}

#[test]
fn a_program_that_runs_as_its_owner_is_told() {
    let (_kept, folder) = folder();
    let no_setuid = rustix::fs::statvfs(&folder)
        .unwrap()
        .f_flag
        .contains(rustix::fs::StatVfsMountFlags::NOSUID);
    if !rustix::process::geteuid().is_root() || no_setuid {
        eprintln!(
            "skipped: only root can make another user's setuid program, and only where such programs are"
        );
        return;
    }
    let Some(program) = compile(&folder, "small", "cc", &[]) else { return };
    std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let recording = record(&options(&folder, &[&"sh", &"-c", &"\"$0\"; \"$0\"; exit 4", &program]));
    let told = about(&recording.meta.losses, &program).join("\n");
    assert!(told.contains("runs as its owner (setuid)"), "{:?}", recording.meta.losses);
}

/// The notes before name the program that the started one became, however short-lived.
#[test]
fn what_the_program_became_is_named() {
    let (_kept, folder) = folder();
    let Some(program) = compile(&folder, "small", "cc", &["-static"]) else { return };
    let recording = record(&options(&folder, &[&"sh", &"-c", &"exec \"$0\"", &program]));
    let [unrecorded] = &recording.recorded.unrecorded[..] else {
        panic!("{:?}", recording.recorded)
    };
    assert_eq!(
        (unrecorded.pid, unrecorded.executable.as_path()),
        (recording.recorded.pid, program.as_path())
    );
    assert!(unrecorded.reason.starts_with("is statically linked"), "{unrecorded:?}");
    assert_eq!(recording.meta.losses.len(), 1, "once: {:?}", recording.meta.losses);
}

/// A process that leaves an unreadable file in the spool is lost, and the recording goes on.
#[test]
fn a_process_whose_file_cannot_be_read_is_told_and_the_others_are_recorded() {
    let (_kept, folder) = folder();
    let Some(program) = compile(&folder, "small", "cc", &[]) else { return };
    // No process has such numbers.
    let script = "mkdir \"$HEAPLAB_SPOOL/4200001-0.process\"; mkfifo \"$HEAPLAB_SPOOL/4200002-0.process\"; \
                  echo HLPROC01 > \"$HEAPLAB_SPOOL/4200003-0.process\"; echo e 1 4200003 /bin/mad >> \"$HEAPLAB_SPOOL/execs\"; \"$0\"; exit 4";
    let options = options(&folder, &[&"sh", &"-c", &script, &program]);
    let mut said = Vec::new();
    let recorded = session::record(&options, &mut |progress| {
        if let session::Progress::Missing(text) = progress {
            said.push(text);
        }
    })
    .unwrap();
    assert_eq!((recorded.status.and_then(|status| status.code()), &recorded.cut), (Some(4), &None));
    let lost: Vec<(u32, &Path)> =
        recorded.unrecorded.iter().map(|lost| (lost.pid, lost.executable.as_path())).collect();
    let unknown = Path::new("an unknown program");
    assert_eq!(lost, [(4200001, unknown), (4200002, unknown), (4200003, Path::new("/bin/mad"))]);
    assert!(
        said.len() == 1 && said[0].starts_with("process 4200001 is not recorded: it left a file"),
        "{said:?}"
    );
    // One that came after heaplab was gone; the recovery finds it.
    std::fs::create_dir(options.spool.join("4200004-0.process")).unwrap();
    let (_, tables, meta, _) = common::read(&options.spool);
    assert!(
        meta.cut.is_none()
            && tables.processes.iter().any(|process| process.executable.ends_with("/small")),
        "{meta:?}"
    );
    for (pid, program) in [
        (4200001, "an unknown program"),
        (4200002, "an unknown program"),
        (4200003, "/bin/mad"),
        (4200004, "an unknown program"),
    ] {
        let begin = format!(
            "process {pid} ({program}) was not recorded: it left a file in the spool that heaplab cannot read ({pid}-0.process: it "
        );
        assert_eq!(
            meta.losses.iter().filter(|loss| loss.starts_with(&begin)).count(),
            1,
            "{pid}: {:?}",
            meta.losses
        );
    }
    assert_eq!(meta.losses.len(), 4, "{:?}", meta.losses);
}
