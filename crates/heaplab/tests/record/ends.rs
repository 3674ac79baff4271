//! Recordings that end early: heaplab is killed, interrupted, or cannot use its files.

use super::*;

#[test]
fn a_program_outlives_heaplab_and_what_it_published_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "counting");
    let [output, counts, over] =
        ["killed.heaplab", "counts", "over"].map(|name| folder.path().join(name));
    let mut command = heaplab();
    command
        .args(["record", "--ring-size", "64K", "-o"])
        .arg(&output)
        .arg("--")
        .arg(&program)
        .arg(&counts)
        .arg("0")
        .arg(&over);
    let mut recorder = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the program is under way", || counted(&counts)[5] == 1);
    let marked = heaplab().args(["mark", "under way", "-o"]).arg(&output).output().unwrap();
    assert!(marked.status.success(), "{}", text(&marked.stderr));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    // More than its ring holds.
    let enough = counted(&counts)[0] + 10_000;
    wait_until("the program runs on", || counted(&counts)[0] > enough);
    std::fs::write(&over, "").unwrap();
    // The pipe's other end is the program's: this returns when it has ended.
    let left = recorder.wait_with_output().unwrap();
    assert_eq!(text(&left.stdout), "done\n", "the program ran on to its end");
    assert!(!output.exists());
    let spool = folder.path().join("killed.heaplab.spool");
    let refused = heaplab().args(["record", "-o"]).arg(&output).arg("true").output().unwrap();
    assert!(text(&refused.stderr).contains("heaplab recover"), "{}", text(&refused.stderr));
    // A limit on the size of files refuses what a full disk would.
    let limited = "trap '' XFSZ; ulimit -f 4; exec \"$0\" recover \"$1\" -o \"$2\"";
    let elsewhere = folder.path().join("small.heaplab");
    let full = Command::new("bash")
        .args(["-c", limited, env!("CARGO_BIN_EXE_heaplab")])
        .arg(&spool)
        .arg(&elsewhere)
        .output()
        .unwrap();
    let said = text(&full.stderr);
    assert_eq!(full.status.code(), Some(1), "{said}");
    let way_out = format!("heaplab recover {} -o /elsewhere/small.heaplab", spool.display());
    assert!(
        said.contains("no room for") && said.contains("is kept in") && said.contains(&way_out),
        "{said}"
    );
    assert!(spool.is_dir() && !elsewhere.exists());
    let unfinished = heaplab().arg("report").arg(&output).output().unwrap();
    let way_out = format!("`heaplab recover {}`", spool.display());
    assert!(
        unfinished.status.code() == Some(1) && text(&unfinished.stderr).contains(&way_out),
        "{}",
        text(&unfinished.stderr)
    );
    let recovered = heaplab().arg("recover").arg(&spool).output().unwrap();
    assert!(
        recovered.status.success() && text(&recovered.stderr).contains("was cut"),
        "{}",
        text(&recovered.stderr)
    );
    assert!(!spool.exists());
    let bundle = Bundle::open(&output).unwrap();
    assert!(
        bundle.meta().cut.as_ref().is_some_and(|cut| cut.contains("heaplab was ended")),
        "{:?}",
        bundle.meta().cut
    );
    let (seen, stated) = (counted_events(&events(&bundle)), counted(&counts));
    assert!(seen[0] > 5000 && seen[0] < stated[0], "{seen:?} {stated:?}");
    assert_eq!(
        bundle.tables().marks.iter().map(|mark| mark.name.as_str()).collect::<Vec<_>>(),
        ["under way"]
    );
}

/// A limit on the size of files forbids what the recorder needs: the program runs as ever, and the
/// limit is named.
#[test]
fn a_limit_on_the_size_of_files_is_named_and_kills_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (program, counts) = (compile(folder.path(), "counting"), folder.path().join("counts"));
    let output = folder.path().join("x.heaplab");
    let run = |script: &str| {
        let _ = std::fs::remove_file(&counts);
        let words = [
            env!("CARGO_BIN_EXE_heaplab").as_ref(),
            output.as_os_str(),
            program.as_os_str(),
            counts.as_os_str(),
        ];
        let ended = Command::new("bash").args(["-c", script]).args(words).output().unwrap();
        (ended.status.code(), text(&ended.stderr), counted(&counts)[5])
    };
    let all = run("ulimit -f 4000; exec \"$0\" record --force -o \"$1\" -- \"$2\" \"$3\" 30000");
    assert!(all.0 == Some(1) && all.2 != 0, "the program ran: {all:?}");
    assert!(all.1.contains("RLIMIT_FSIZE") && !all.1.contains("never loaded"), "{all:?}");
    let child = run(
        "exec \"$0\" record --force -o \"$1\" -- bash -c 'ulimit -f 64; \"$0\" \"$1\" 30000; exit 7' \"$2\" \"$3\"",
    );
    assert!(child.0 == Some(7) && child.2 != 0, "the program and its parent ran: {child:?}");
    assert!(
        child.1.contains("RLIMIT_FSIZE") && !child.1.contains("did not load the recorder"),
        "{child:?}"
    );
}

/// While heaplab is held up, the file of a child that is already there becomes one that it cannot
/// read: the child does not wait for room in a ring that nobody empties, and everybody else is
/// recorded.
#[test]
fn a_child_whose_file_cannot_be_read_runs_to_its_end_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (program, counts, output) = (
        compile(folder.path(), "counting"),
        folder.path().join("counts"),
        folder.path().join("x.heaplab"),
    );
    // What is done while nothing is drained is done by shells that are not recorded: they would
    // wait, too.
    let hold = "kill -STOP $1; state() { read -r stat < /proc/$1/stat; stat=${stat##*) }; [ \"${stat%% *}\" = T ]; }; until state $1; do :; done";
    let overwrite = "file=$HEAPLAB_SPOOL/$2-1.process; until [ \"$(head -c 8 \"$file\" 2> \"$3\" | tr -d '\\0')\" = HLPROC01 ]; do :; done; \
                     printf '\\t' | dd of=\"$file\" bs=1 seek=8 conv=notrunc 2> \"$3\"; kill -CONT $1";
    let script = "said=$1.said; env -u LD_PRELOAD bash -c \"$2\" hold $PPID; \"$0\" \"$1\" 100000 & child=$!; \
                  env -u LD_PRELOAD bash -c \"$3\" overwrite $PPID $child \"$said\"; wait $child; [ $? = 3 ] || exit 5; echo $child; exit 4";
    let mut command = heaplab();
    command
        .args(["record", "--ring-size", "256K", "--no-symbols", "-o"])
        .arg(&output)
        .args(["--", "sh", "-c", script])
        .arg(&program);
    command.arg(&counts).args([hold, overwrite]);
    let recorded = command.output().unwrap();
    let said = text(&recorded.stderr);
    assert_eq!(recorded.status.code(), Some(4), "{said}");
    let printed = text(&recorded.stdout);
    let child = printed.lines().last().unwrap_or_default();
    let why = format!(
        "it left a file in the spool that heaplab cannot read ({child}-1.process: its layout has version 9;"
    );
    let [now, at_end] = [
        format!("heaplab: process {child} is not recorded: {why}"),
        format!(") was not recorded: {why}"),
    ];
    assert!(said.matches(&now).count() == 1 && said.matches(&at_end).count() == 1, "{said}");
    let bundle = Bundle::open(&output).unwrap();
    assert!(
        bundle.meta().cut.is_none() && counted_events(&events(&bundle))[0] == 0,
        "{:?}",
        bundle.meta()
    );
    assert!(
        bundle.tables().processes.iter().any(|process| process.executable.ends_with("sh")),
        "{said}"
    );
}

/// The kernel answers with SIGBUS who reads a mapped file where it no longer is.
#[test]
fn a_spool_that_becomes_shorter_ends_heaplab_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("cut.heaplab.spool/control");
    let mut record = heaplab();
    record
        .args(["record", "-o"])
        .arg(folder.path().join("cut.heaplab"))
        .args(["--", "sh", "-c", r#": > "$0""#])
        .arg(control);
    let output = record.output().unwrap();
    let said = text(&output.stderr);
    assert!(
        said.contains("a mapped file became shorter") && said.lines().all(|line| line.len() <= 80),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1));
    let recovered =
        heaplab().arg("recover").arg(folder.path().join("cut.heaplab.spool")).output().unwrap();
    let said = text(&recovered.stderr);
    assert!(
        recovered.status.code() == Some(1)
            && said.contains("is not the spool of a recording")
            && !said.contains("heaplab recover"),
        "{said}"
    );
}

/// Ended while it finishes, heaplab says where the recording is, and leaves nothing else.
#[test]
fn who_ends_heaplab_while_it_finishes_is_told_where_the_recording_is() {
    let folder = tempfile::tempdir().unwrap();
    let (program, counts, output) = (
        compile(folder.path(), "counting"),
        folder.path().join("counts"),
        folder.path().join("x.heaplab"),
    );
    let mut record = heaplab();
    record
        .args(["record", "-q", "-o"])
        .arg(&output)
        .arg("--")
        .arg(&program)
        .arg(&counts)
        .arg("3000000");
    let recorder = record.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let unfinished = || {
        let names = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".x.heaplab.unfinished")).count()
    };
    wait_until("it finishes", || unfinished() > 0 || output.exists());
    assert!(
        Command::new("kill")
            .args(["-TERM", &recorder.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let ended = recorder.wait_with_output().unwrap();
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(128 + libc::SIGTERM), "{said}");
    let spool = folder.path().join("x.heaplab.spool");
    assert!(
        said.contains(&format!("`heaplab recover {}`", spool.display()))
            && said.lines().count() == 1,
        "{said}"
    );
    assert!(unfinished() == 0 && !output.exists());
    let recovered = heaplab().arg("recover").arg(&spool).output().unwrap();
    assert!(
        recovered.status.success() && Bundle::open(&output).unwrap().meta().cut.is_none(),
        "{}",
        text(&recovered.stderr)
    );
}
