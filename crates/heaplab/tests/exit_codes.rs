//! docs/exit-codes.md held against the binary: like mistakes have like codes, whichever command
//! they are made in, and say what there is.

use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command line (`SQLITE`, `JVM`, `OUT` and `HERE` stand for paths), its exit code, and words on
/// standard error.
type Case = (&'static str, i32, &'static str);

const CASES: &[Case] = &[
    // Words that heaplab does not know.
    ("repotr", 2, "unrecognized subcommand"),
    ("report SQLITE --allocator umem", 2, "expected measured"),
    ("report SQLITE --top many", 2, "invalid value"),
    ("replay SQLITE --on glibc,umem", 2, "umem"),
    ("replay SQLITE --on glibc,./libmine.so", 2, "a library is named lib:./libmine.so"),
    ("replay SQLITE --on v8:many,base=HERE/missing.toml", 1, "a readable TOML file"),
    ("replay SQLITE --on v8:many,base=1000000", 2, "live bytes a page"),
    ("record --forcee -- true", 2, "'--force'"),
    ("completions tcsh", 2, "possible values"),
    ("replay SQLITE --on glibc,glibc", 2, "is named twice"),
    ("replay SQLITE --on null", 2, "the null heap"),
    ("replay SQLITE --on glibc --shard 3/2", 2, "I below N"),
    ("replay SQLITE --on glibc --limit 0", 2, "0 is not in 1.."),
    ("curve -- true", 2, "nothing is varied"),
    ("curve --vary GOGC=25..800 -- true", 2, "how many values"),
    ("curve --vary GOGC={25..800x8 -- true", 2, "this brace is not closed"),
    ("curve --vary GOGC=25..800x8 --compare a=0,a=2 -- true", 2, "nothing says where this goes"),
    ("curve --vary GOGC=25..800x8 --budget 3 -- true", 2, "300MB"),
    ("curve --vary GOGC={a,b} --min-heap -- true", 2, "a range of numbers"),
    ("curve --vary GOGC=25..800x8 --cores 3-1 -- true", 2, "numbers of processors"),
    ("curve SQLITE --on ocaml:best-fit --vary nothing=1..9x3", 2, "no policy or parameter"),
    ("curve SQLITE --on ocaml:best-fit --vary o=0..8+4", 2, "ocaml's o takes percent"),
    ("curve SQLITE --on ocaml:best-fit,o=80 --vary o=20..80x3", 2, "cannot be given, too"),
    ("curve SQLITE --on ocaml:best-fit", 2, "nothing is varied"),
    ("curve SQLITE --vary o=20..80x3", 2, "--on"),
    ("curve SQLITE --on umem --vary o=20..80x3", 2, "there is no heap"),
    ("curve SQLITE --on glibc --vary tcache_count=1..7+3 --time wall", 2, "the processor's"),
    ("curve SQLITE --on glibc --vary tcache_count=1..7+3 -- true", 2, "cannot be used with"),
    ("curve --vary GOGC=25..800x8 --space committed -- true", 2, "heaps of the lab say it"),
    ("export SQLITE --format gif", 2, "possible values"),
    ("export SQLITE --format dhat --at 1ms -o OUT", 2, "a DHAT file holds"),
    ("import gif HERE/a HERE/b HERE/c -o OUT", 2, "one trace is imported at a time"),
    ("import pprofff HERE/a -o OUT", 2, "is no format"),
    ("report JVM --model metaspace:jdk7", 2, "jdk7"),
    ("report JVM --model jdk17", 2, "is no model"),
    ("report SQLITE --model metaspace:jdk17", 2, "is none"),
    ("compare SQLITE", 2, "is compared with nothing"),
    ("compare SQLITE SQLITE SQLITE", 2, "Put -- between them"),
    ("compare SQLITE -- SQLITE --json", 2, "put options before"),
    ("compare SQLITE SQLITE --fail-over little", 2, "a share such as 2%"),
    // Names that are not in the file.
    ("compare SQLITE SQLITE --at noon", 2, "is no moment"),
    ("compare SQLITE SQLITE --process nobody", 2, "no process is called"),
    ("report SQLITE --process 999999999", 2, "no process is called"),
    ("replay SQLITE --on glibc --process nobody", 2, "no process is called"),
    ("export SQLITE --process nobody --format pprof -o OUT", 2, "no process is called"),
    ("report SQLITE --at noon", 2, "is no moment"),
    ("report JVM --at noon", 2, "is no moment"),
    ("report SQLITE --between end peak", 2, "peak"),
    ("report SQLITE --between end 1ms", 2, "name the earlier moment first"),
    ("export SQLITE --at noon --format pprof -o OUT", 2, "is no moment"),
    // Circumstances.
    ("report HERE/nothing.heaplab", 1, "nothing.heaplab"),
    ("replay HERE/nothing.heaplab --on glibc", 1, "nothing.heaplab"),
    ("compare SQLITE HERE/nothing.heaplab", 1, "nothing.heaplab"),
    ("compare SQLITE SQLITE --html JVM/meta.json", 1, "no page of heaplab"),
    ("export HERE/nothing.heaplab --format pprof -o OUT", 1, "nothing.heaplab"),
    ("import HERE/nothing.txt -o OUT", 1, "nothing.txt"),
    ("curve --vary GOGC=25..800x8 -- HERE/nothing", 1, "nothing cannot be started"),
    ("curve HERE/nothing --on glibc --vary tcache_count=1..7+3", 1, "no such recording"),
    ("recover HERE/nothing.spool", 1, "there is no spool"),
    ("replay SQLITE --on lib:HERE/nothing.so", 1, "nothing.so"),
    ("report SQLITE --html HERE/no/folder/x.html", 1, "x.html"),
    ("report SQLITE --html JVM/meta.json", 1, "no page of heaplab"),
    ("import jvm-log HERE/none.log -o JVM --force", 1, "none.log"),
    ("snapshot summary HERE/nothing.heapsnapshot", 1, "nothing.heapsnapshot"),
];

/// A recording behind a door that is closed is not one that is missing.
#[test]
fn a_folder_that_may_not_be_looked_into_is_said_to_be_one() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    std::fs::create_dir_all(closed.join("a.heaplab")).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o600)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaplab"));
    if std::fs::read_dir(closed.join("a.heaplab")).is_ok() {
        // Root may look into everything.
        command.uid(65534).gid(65534);
    }
    let Ok(output) = command.arg("report").arg(closed.join("a.heaplab")).current_dir("/").output()
    else {
        eprintln!("skipped: another user may not run this build of heaplab");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1)
            && said.contains("Permission denied")
            && !said.contains("no such"),
        "{said}"
    );
}

#[test]
fn the_command_line_is_written_for_shells_and_man() {
    let folder = tempfile::tempdir().unwrap();
    let heaplab = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_heaplab"))
            .args(words)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(heaplab(&["completions", shell]).stdout).unwrap();
        assert!(script.contains("replay") && script.contains("stack-depth"), "{shell}");
    }
    assert!(heaplab(&["man", "pages"]).status.success());
    let page =
        std::fs::read_to_string(folder.path().join("pages/heaplab-snapshot-take.1")).unwrap();
    assert!(
        page.contains(".TH") && page.contains("heaplab snapshot take \\-\\-node 4711"),
        "{page}"
    );
}

#[test]
fn like_mistakes_have_like_codes() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    let traces = repository().join("traces");
    let sqlite = traces.join("sqlite.heaplab");
    let elsewhere = tempfile::tempdir().unwrap();
    let jvm = elsewhere.path().join("jvm.heaplab");
    let log = repository().join("crates/jvm/tests/data/jvm-log/jdk-17.0.15.log.gz");
    let imported = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["import", "jvm-log"])
        .arg(log)
        .arg("-o")
        .arg(&jvm)
        .output()
        .unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let mut wrong = String::new();
    for (line, code, words) in CASES {
        let line =
            line.replace("SQLITE", sqlite.to_str().unwrap()).replace("JVM", jvm.to_str().unwrap());
        let line = line.replace("OUT", &format!("{here}/out")).replace("HERE", here);
        let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
            .args(line.split(' '))
            .env_remove("COLUMNS")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(*code) || !said.contains(words) {
            wrong.push_str(&format!(
                "heaplab {line}\n  expected {code} and {words:?}, found {:?}: {said}\n",
                output.status.code()
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
