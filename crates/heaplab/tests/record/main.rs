//! `heaplab record`, `mark` and `recover` as a user meets them: the binary, real programs, real
//! kills.

mod ends;
mod inherited;

use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::{Event, EventSource, Flags, Op};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn heaplab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
}

/// Compiles one of the recorder's test programs.
fn compile(folder: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../record/tests/programs")
        .join(format!("{name}.c"));
    let program = folder.join(name);
    let status = Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-fno-builtin", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(status.expect("a C compiler").success());
    program
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn events(bundle: &Bundle) -> Vec<Event> {
    let mut events = Vec::new();
    let mut source = bundle.events(Selection::default()).unwrap();
    source
        .for_each(|event| {
            events.push(*event);
            Ok(())
        })
        .unwrap();
    events
}

/// Mallocs, callocs, reallocs, frees and requested bytes of `counting`, by its sizes.
fn counted_events(events: &[Event]) -> [u64; 5] {
    let mut mine = HashSet::new();
    let mut sums = [0; 5];
    for event in events {
        match event.op {
            Op::Alloc if (20_000..20_064).contains(&event.size) => {
                sums[usize::from(event.has(Flags::ZEROED))] += 1;
                sums[4] += event.size;
                mine.insert(event.object);
            }
            Op::Realloc if mine.contains(&event.object) => sums[2] += 1,
            Op::Free if mine.remove(&event.object) => sums[3] += 1,
            _ => {}
        }
    }
    sums
}

/// What `counting` says: the same, then whether it is well under way.
fn counted(path: &Path) -> [u64; 6] {
    let bytes = std::fs::read(path).unwrap_or_default();
    std::array::from_fn(|at| {
        bytes.get(8 * at..8 * at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
    })
}

/// Waits for something that comes sooner or later, on a busy machine too.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came: {what}");
}

#[test]
fn the_program_behaves_as_ever_and_the_bundle_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "small");
    let plain = Command::new(&program).output().unwrap();
    let output = folder.path().join("small.heaplab");
    let recorded =
        heaplab().args(["record", "-o"]).arg(&output).arg("--").arg(&program).output().unwrap();
    assert_eq!((&recorded.stdout, recorded.status.code()), (&plain.stdout, plain.status.code()));
    let errors = text(&recorded.stderr);
    assert!(errors.starts_with(&text(&plain.stderr)), "{errors}");
    let ours: Vec<&str> = errors.lines().skip(1).collect();
    assert!(ours[0] == "heaplab: the program ended with status 7", "{errors}");
    assert!(
        ours[1].starts_with("heaplab: recorded ")
            && ours[2].starts_with("heaplab: next: heaplab report "),
        "{errors}"
    );
    assert!(!folder.path().join("small.heaplab.spool").exists());
    let bundle = Bundle::open(&output).unwrap();
    assert_eq!(bundle.meta().cut, None);
    let all = events(&bundle);
    let row = all.iter().find(|event| event.size == 1234).expect("its one block");
    let functions: Vec<String> = bundle
        .tables()
        .frames_of(row.stack)
        .map(|frame| bundle.tables().frame_label(frame))
        .collect();
    assert!(functions.contains(&String::from("main")), "{functions:?}");
    let again = heaplab().args(["record", "-o"]).arg(&output).arg(&program).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("exists already"), "{}", text(&again.stderr));
    for nothing in
        [&["record", "--force", "-o"][..], &["record", "--force", "--jvm-metaspace", "-o"]]
    {
        let refused =
            heaplab().args(nothing).arg(&output).arg("/nonexistent/program").output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let kept = Bundle::open(&output).map(|bundle| bundle.meta().events);
        assert!(
            kept.is_ok_and(|events| events > 0),
            "nothing was recorded, so that the old recording stays"
        );
    }
    for force in [&[][..], &["--force"]] {
        let recovered = heaplab().arg("recover").arg(&output).args(force).output().unwrap();
        let said = text(&recovered.stderr);
        assert!(
            recovered.status.code() == Some(2)
                && said.contains("is a finished recording")
                && Bundle::open(&output).is_ok(),
            "{said}"
        );
    }
    let forced = heaplab()
        .args(["record", "--force", "--json", "-o"])
        .arg(&output)
        .arg(&program)
        .output()
        .unwrap();
    assert_eq!(forced.status.code(), Some(7));
    let summary: serde_json::Value =
        serde_json::from_str(text(&forced.stderr).lines().last().unwrap()).unwrap();
    assert_eq!((summary["exit_status"].as_i64(), summary["cut"].is_null()), (Some(7), true));
}

#[test]
fn a_program_that_allocates_nothing_ends_with_its_own_status() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("quiet.c"), "int main(void) { return 5; }").unwrap();
    let program = folder.path().join("quiet");
    assert!(
        Command::new("cc")
            .arg("-o")
            .arg(&program)
            .arg(folder.path().join("quiet.c"))
            .status()
            .unwrap()
            .success()
    );
    let recorded =
        heaplab().current_dir(folder.path()).args(["record", "--", "./quiet"]).output().unwrap();
    let said = text(&recorded.stderr);
    assert!(recorded.status.code() == Some(5) && said.contains("recorded 0 events"), "{said}");
    let report =
        heaplab().current_dir(folder.path()).args(["report", "quiet.heaplab"]).output().unwrap();
    assert!(
        report.status.success() && text(&report.stdout).contains("Nothing was allocated"),
        "{}",
        text(&report.stderr)
    );
    let replay = heaplab()
        .current_dir(folder.path())
        .args(["replay", "quiet.heaplab", "--on", "glibc"])
        .output()
        .unwrap();
    assert!(!text(&replay.stderr).contains("panicked"), "{}", text(&replay.stderr));
}

/// As Firefox does: a script starts what is meant, and the script's shell is all that can be seen.
#[test]
fn a_largest_process_with_an_allocator_of_its_own_is_a_failed_recording() {
    let folder = tempfile::tempdir().unwrap();
    let source = "static char memory[64 << 20]; static unsigned long used;\
        void *malloc(unsigned long n) { char *at = memory + used; used += (n + 15) & ~15ul; return at; } void free(void *p) { (void)p; }\
        int main(void) { for (int i = 0; i < 500; i++) { char *p = malloc(100000); for (int j = 0; j < 100000; j += 4096) p[j] = 1; } return 0; }";
    std::fs::write(folder.path().join("browser.c"), source).unwrap();
    let browser = folder.path().join("browser");
    let built = Command::new("cc")
        .args(["-rdynamic", "-fno-builtin", "-o"])
        .arg(&browser)
        .arg(folder.path().join("browser.c"))
        .status();
    assert!(built.unwrap().success());
    for script in ["exec ./browser", "./browser; true"] {
        let recorded = heaplab()
            .current_dir(folder.path())
            .args(["record", "--force", "-o", "b.heaplab", "--", "sh", "-c", script])
            .output();
        let recorded = recorded.unwrap();
        let said = text(&recorded.stderr);
        assert_eq!(recorded.status.code(), Some(1), "{script}: {said}");
        assert!(
            said.lines().last().is_some_and(|line| line.contains("browser), the largest with ")
                && line.contains("defines malloc itself")),
            "{said}"
        );
    }
}

#[test]
fn an_option_that_is_mistyped_is_not_taken_for_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        heaplab().current_dir(folder.path()).arg("record").args(words).output().unwrap()
    };
    let mistyped = run(&["--forcee", "--", "true"]);
    let said = text(&mistyped.stderr);
    assert!(
        mistyped.status.code() == Some(2)
            && said.contains("'--forcee'")
            && said.contains("'--force'"),
        "{said}"
    );
    // Behind the program every word is the program's, and behind `--` the program may be called
    // anything.
    let own = run(&["-o", "a.heaplab", "sh", "-c", "exit $#", "--force", "-o", "x"]);
    assert_eq!(own.status.code(), Some(2), "{}", text(&own.stderr));
    assert!(folder.path().join("a.heaplab").exists());
    let odd = run(&["--", "--forcee"]);
    assert!(
        odd.status.code() == Some(1) && text(&odd.stderr).contains("--forcee"),
        "{}",
        text(&odd.stderr)
    );
}

/// Said once, when it begins and nobody knows how long it will run.
#[test]
fn a_program_that_cannot_be_recorded_is_refused_with_the_reason_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/programs/small.c");
    let program = folder.path().join("small");
    let compiled =
        Command::new("cc").args(["-static", "-o"]).arg(&program).arg(source).output().unwrap();
    if !compiled.status.success() {
        heaplab_oracle::skip("cc -static cannot build");
        return;
    }
    let refused =
        heaplab().current_dir(folder.path()).args(["record", "--"]).arg(&program).output().unwrap();
    let said = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(1) && said.matches("is statically linked").count() == 1,
        "{said}"
    );
    assert!(
        said.lines()
            .last()
            .is_some_and(|line| line.starts_with("heaplab: nothing was recorded of ")),
        "{said}"
    );
}

/// What the last line says to do can be pasted into a shell.
#[test]
fn the_next_command_names_the_bundle_whatever_its_name_is() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join(std::ffi::OsStr::from_bytes(b"it's caf\xe9.heaplab"));
    let record = |more: &[&str]| {
        heaplab()
            .args(["record", "--no-symbols", "--force"])
            .args(more)
            .arg("-o")
            .arg(&output)
            .args(["--", "sh", "-c", "true"])
            .output()
    };
    let said = text(&record(&[]).unwrap().stderr);
    let next = said
        .lines()
        .last()
        .unwrap()
        .strip_prefix("heaplab: next: heaplab report ")
        .unwrap_or_else(|| panic!("{said}"));
    let read = Command::new("bash").arg("-c").arg(format!("printf %s {next}")).output().unwrap();
    assert_eq!(read.stdout, output.as_os_str().as_bytes());
    let summary = text(&record(&["--json"]).unwrap().stderr);
    let summary: serde_json::Value = serde_json::from_str(summary.lines().last().unwrap()).unwrap();
    assert!(summary["bundle"].as_str().unwrap().ends_with("/it's caf%E9.heaplab"), "{summary}");
}

#[test]
fn what_cannot_be_recorded_is_said_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str], code: i32, reason: &str| {
        let Output { status, stderr, .. } =
            heaplab().current_dir(folder.path()).args(arguments).output().unwrap();
        assert!(
            status.code() == Some(code) && text(&stderr).contains(reason),
            "{arguments:?}: {status} {}",
            text(&stderr)
        );
    };
    fails(&["record", "--", "no-such-program-anywhere"], 1, "there is no program");
    fails(&["record", "--", "/etc/passwd"], 1, "cannot be executed");
    fails(&["record", "-o", "/dev/null/x.heaplab", "--", "true"], 1, "/dev/null/x.heaplab.spool");
    fails(&["record", "-o", "sub/x.heaplab/", "--", "true"], 1, "sub/x.heaplab.spool");
    fails(&["record"], 2, "PROGRAM");
    fails(&["record", "--ring-size", "5", "--", "true"], 2, "power of two");
    fails(&["recover", "nothing.heaplab"], 1, "there is no spool");
    fails(&["mark", "-o", "nothing.heaplab", "loaded"], 1, "no recording is running");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Nothing but the installed binary is needed to name moments from inside of a program.
#[test]
fn a_program_is_compiled_with_the_header_that_the_binary_prints_and_its_marks_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let header = heaplab().args(["mark", "--header"]).output().unwrap();
    assert!(header.status.success() && header.stderr.is_empty());
    std::fs::write(folder.path().join("heaplab.h"), &header.stdout).unwrap();
    let source = "#include <stdlib.h>\n#include \"heaplab.h\"\nint main(void) { void *volatile p = malloc(5000000); HEAPLAB_MARK(\"loaded\"); free(p); return 0; }\n";
    std::fs::write(folder.path().join("app.c"), source).unwrap();
    let compiled = Command::new("cc")
        .current_dir(folder.path())
        .args(["-o", "app", "app.c"])
        .status()
        .unwrap();
    assert!(
        compiled.success() && Command::new(folder.path().join("app")).status().unwrap().success(),
        "it runs without a recording"
    );
    let recorded = heaplab()
        .current_dir(folder.path())
        .args(["record", "-q", "-o", "a.heaplab", "--", "./app"])
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let report = text(
        &heaplab()
            .current_dir(folder.path())
            .args(["report", "a.heaplab"])
            .output()
            .unwrap()
            .stdout,
    );
    let line = report
        .lines()
        .find(|line| line.ends_with("  loaded"))
        .unwrap_or_else(|| panic!("{report}"));
    assert!(line.contains("4.77 MiB"), "{line}");
    let usage = heaplab().args(["mark", "--header", "loaded"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn a_peak_between_two_samples_is_known_from_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "spike");
    let output = folder.path().join("x.heaplab");
    let recorded = heaplab()
        .args(["record", "--no-symbols", "-o"])
        .arg(&output)
        .arg("--")
        .arg(&program)
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let bundle = Bundle::open(&output).unwrap();
    let samples = &bundle.tables().samples;
    assert!(samples.iter().all(|sample| sample.resident_bytes < 20 << 20), "{samples:?}");
    let resident = heaplab_profile::resident_peak(bundle.tables(), None).unwrap();
    assert!(
        resident.is_kernels && resident.bytes > 40 << 20 && resident.bytes < 60 << 20,
        "{resident:?}"
    );
    let report = text(&heaplab().arg("report").arg(&output).output().unwrap().stdout);
    assert!(
        report.contains("\nresident at most 4") && report.contains("beyond the peak of live bytes"),
        "{report}"
    );
}

#[test]
fn real_programs_are_recorded_and_print_what_they_print() {
    for (program, arguments, input) in [
        (
            "sqlite3",
            &[":memory:"][..],
            "create table t(x); insert into t select value from generate_series(1, 2000); select sum(x) from t;",
        ),
        ("jq", &["-c", "map(. * 2) | add"][..], "[1, 2, 3, 4.5, 1e3]"),
        ("python3", &["-c", "print(sorted({str(n): n for n in range(5000)})[:3])"][..], ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        if !heaplab_oracle::has(program) {
            continue;
        }
        let stdin = folder.path().join("input");
        std::fs::write(&stdin, input).unwrap();
        let run = |command: &mut Command| {
            command.stdin(std::fs::File::open(&stdin).unwrap()).output().unwrap()
        };
        let plain = run(Command::new(program).args(arguments));
        let output = folder.path().join("x.heaplab");
        let recorded = run(heaplab()
            .args(["record", "--no-symbols", "-o"])
            .arg(&output)
            .arg("--")
            .arg(program)
            .args(arguments));
        assert_eq!(
            (&recorded.stdout, recorded.status.code()),
            (&plain.stdout, plain.status.code()),
            "{}",
            text(&recorded.stderr)
        );
        let bundle = Bundle::open(&output).unwrap();
        assert_eq!(bundle.meta().cut, None);
        assert!(bundle.meta().events > 200, "{program}: {:?}", bundle.meta());
    }
}

/// None takes the spool of another that has just begun for one that was left.
#[test]
fn of_recordings_of_one_name_that_begin_together_one_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let record = |_| {
            let mut record = heaplab();
            record.current_dir(folder.path()).args([
                "record",
                "--force",
                "--no-symbols",
                "-o",
                "x.heaplab",
                "--",
                "sh",
                "-c",
                "sleep 2",
            ]);
            record.stderr(Stdio::piped()).spawn().unwrap()
        };
        let recorders: Vec<_> = (0..6).map(record).collect();
        let ended: Vec<Output> =
            recorders.into_iter().map(|recorder| recorder.wait_with_output().unwrap()).collect();
        let said: Vec<String> = ended.iter().map(|output| text(&output.stderr)).collect();
        let is_made = |output: &&Output| output.status.success();
        assert!(ended.iter().any(|output| is_made(&output)), "{said:?}");
        let refused = ended.iter().zip(&said).filter(|(output, _)| !is_made(output));
        refused.for_each(|(_, said)| {
            assert!(said.contains("in use") || said.contains("running"), "{said}")
        });
        assert!(Bundle::open(&folder.path().join("x.heaplab")).is_ok());
    }
}
