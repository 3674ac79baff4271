//! Programs and children that cannot be recorded.

use super::*;

#[test]
fn programs_that_cannot_be_recorded_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, &str, &[&str], &str); 8] = [
        ("small", "cc", &["-static"], "statically linked"),
        ("small", "gcc", &["-fsanitize=address", "-static-libasan"], "contains AddressSanitizer"),
        ("small", "gcc", &["-fsanitize=thread", "-static-libtsan"], "contains ThreadSanitizer"),
        ("small", "clang", &["-fsanitize=address"], "contains AddressSanitizer"),
        ("small", "clang", &["-fsanitize=memory"], "contains MemorySanitizer"),
        ("own_malloc", "cc", &["-fno-builtin", "-rdynamic"], "defines malloc itself"),
        ("small", "cc", &["-m32"], "32-bit"),
        ("small", "musl-gcc", &[], "musl"),
    ];
    for (number, (name, compiler, flags, reason)) in cases.into_iter().enumerate() {
        let inside = folder.path().join(number.to_string());
        std::fs::create_dir(&inside).unwrap();
        let Some(program) = compile(&inside, name, compiler, flags) else { continue };
        let recorded = session::record(&options(&inside, &[&program]), &mut |_| {}).unwrap();
        let why = recorded.nothing().expect("nothing can be recorded");
        assert!(why.contains(reason), "{name} {flags:?}: {why}");
        assert_eq!(
            recorded.status.and_then(|status| status.code()),
            Some(if name == "small" { 7 } else { 0 }),
            "it ran all the same"
        );
        let script = inside.join("script");
        std::fs::write(&script, format!("#!{}\n", program.display())).unwrap();
        let obstacle =
            heaplab_record::diagnose::obstacle(&script, None).expect("its interpreter's obstacle");
        assert!(
            obstacle.to_string().contains("interpreter") && obstacle.to_string().contains(reason),
            "{obstacle}"
        );
    }
}

/// Whether the kernel gives AT_PLATFORM, as Linux does: without it the recorder's plain path names
/// it.
fn programs_are_told_apart() -> bool {
    let auxiliary = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let is_there =
        auxiliary.chunks_exact(16).any(|pair| pair[..8] == libc::AT_PLATFORM.to_ne_bytes());
    if !is_there {
        eprintln!("skipped: this kernel does not say what platform it is");
    }
    is_there
}

/// musl's dynamic linker would end a program over the recorder, a 32-bit one would complain. Their
/// output, into a file each, and their ends are as without recording, and the program that started
/// them is recorded.
#[test]
fn children_that_cannot_load_the_recorder_run_as_they_would() {
    if !programs_are_told_apart() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (number, (compiler, flags)) in
        [("musl-gcc", &[][..]), ("cc", &["-m32"][..]), ("cc", &["-static"][..])]
            .into_iter()
            .enumerate()
    {
        let inside = folder.path().join(number.to_string());
        std::fs::create_dir(&inside).unwrap();
        let Some(program) = compile(&inside, "small", compiler, flags) else { continue };
        let Some(leaf) = compile(&inside, "counting", "cc", &[]) else { return };
        let script = "\"$0\" > \"$2/out\" 2> \"$2/err\"; echo $? >> \"$2/out\"; \"$1\" \"$2/counts\" 1000; exit 9";
        let printed = || {
            (
                std::fs::read_to_string(inside.join("out")).unwrap(),
                std::fs::read_to_string(inside.join("err")).unwrap(),
            )
        };
        let plain = Command::new("sh")
            .arg("-c")
            .arg(script)
            .args([&program, &leaf, &inside])
            .status()
            .unwrap();
        let unrecorded = printed();
        assert_eq!(unrecorded, ("to standard output\n7\n".into(), "to standard error\n".into()));
        std::fs::remove_file(inside.join("counts")).unwrap();
        let recording =
            record(&options(&inside, &[&"sh", &"-c", &script, &program, &leaf, &inside]));
        assert_eq!(printed(), unrecorded, "{compiler} {flags:?}");
        assert_eq!((recording.recorded.status, plain.code()), (Some(plain), Some(9)));
        assert_eq!(counted_events(&recording.events)[..], counted(&inside.join("counts"))[..5]);
        assert_eq!(
            (&recording.meta.cut, recording.tables.processes[0].ended),
            (&None, Ended::Exited(9))
        );
        assert_eq!(
            recording.tables.processes.len(),
            2,
            "the shell and the one that can be recorded, which are {:?}",
            recording.tables.processes
        );
    }
}

/// Records the program of `options`. The program waits for the end of its standard input (the first
/// path, with one byte) and writes to the second path when the wait begins. The input ends after
/// heaplab has looked around a few times.
fn looked_at(folder: &Path, options: &dyn Fn(&Path, &Path) -> RecordOptions) -> session::Recorded {
    let (fifo, ready) = (folder.join("fifo"), folder.join("ready"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut kept = Some(std::fs::File::options().read(true).write(true).open(&fifo).unwrap());
    kept.as_mut().unwrap().write_all(b".").unwrap();
    let (mut since, mut looks) = (None, 0);
    session::record(&options(&fifo, &ready), &mut |_| {
        if std::fs::metadata(&ready).is_ok_and(|ready| ready.len() > 0) {
            looks += 1;
            let since: &mut Instant = since.get_or_insert_with(Instant::now);
            // Progress comes in turns, each with a look if due; two looks are half a second apart
            // at most.
            if looks > 10 && since.elapsed() > Duration::from_secs(2) {
                kept = None;
            }
        }
    })
    .unwrap()
}

/// A child that runs long enough for a look is reported with the reason.
#[test]
fn children_that_cannot_load_the_recorder_are_told_with_the_reason() {
    if !programs_are_told_apart() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (number, (compiler, flags, why)) in
        [("musl-gcc", &[][..], "musl"), ("cc", &["-m32"][..], "32-bit")].into_iter().enumerate()
    {
        let inside = folder.path().join(number.to_string());
        std::fs::create_dir(&inside).unwrap();
        let Some(program) = compile(&inside, "waits", compiler, flags) else { continue };
        let script = "\"$0\" < \"$1\" > \"$2\"; exit 4";
        let recorded = looked_at(&inside, &|fifo, ready| {
            options(&inside, &[&"sh", &"-c", &script, &program, &fifo, &ready])
        });
        assert_eq!(recorded.status.and_then(|status| status.code()), Some(4));
        assert_eq!(recorded.unrecorded.len(), 1, "{recorded:?}");
        let reason = &recorded.unrecorded[0].reason;
        assert!(reason.contains(why) && !reason.contains("static"), "{reason}");
    }
}

#[test]
fn a_cleaned_environment_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "small", "cc", &[]) else { return };
    let recorded =
        session::record(&options(folder.path(), &[&"env", &"-i", &program]), &mut |_| {}).unwrap();
    assert_eq!(recorded.unrecorded.len(), 1, "{recorded:?}");
    assert!(recorded.unrecorded[0].reason.contains("LD_PRELOAD"), "{:?}", recorded.unrecorded);
}

#[test]
fn a_program_that_becomes_another_user_is_noticed() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    if !heaplab_oracle::has("setpriv") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "exec setpriv --reuid=65534 --clear-groups cat < \"$0\" > \"$1\"";
    let recorded = looked_at(folder.path(), &|fifo, ready| {
        options(folder.path(), &[&"sh", &"-c", &script, &fifo, &ready])
    });
    assert_eq!(recorded.unrecorded.len(), 1, "{recorded:?}");
    assert!(
        recorded.unrecorded[0].reason.contains("another user (number 65534)"),
        "{:?}",
        recorded.unrecorded
    );
}
