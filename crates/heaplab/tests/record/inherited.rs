//! What a recorded program has of the process that started heaplab: signals and environment.

use super::*;

/// What heaplab and Rust's runtime do with signals is none of the program's business: ignored or
/// not, it inherits that. And whatever it inherits, heaplab hears of its end.
#[test]
fn a_program_inherits_what_becomes_of_signals() {
    let folder = tempfile::tempdir().unwrap();
    let ignored = |signals: &'static [i32]| {
        let mut record = heaplab();
        record.args(["record", "-q", "--force", "-o"]).arg(folder.path().join("x.heaplab"));
        // A file that is not there is status 2. A shell would change SIGCHLD for whom it starts.
        record.args(["--", "grep", "-hs", "SigIgn:", "/proc/self/status", "/nonexistent"]);
        let set = move || {
            for signal in [libc::SIGBUS, libc::SIGPIPE, libc::SIGCHLD] {
                let handling =
                    if signals.contains(&signal) { libc::SIG_IGN } else { libc::SIG_DFL };
                // SAFETY: signal(2) may be called after a fork, and takes two integers.
                unsafe { libc::signal(signal, handling) };
            }
            Ok(())
        };
        // SAFETY: the closure allocates nothing and makes calls that may be made between fork and
        // exec.
        let output = unsafe { record.pre_exec(set) }.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{signals:?}: {}", text(&output.stderr));
        let said = text(&output.stdout);
        let bits = u64::from_str_radix(said.trim_start_matches("SigIgn:").trim(), 16).unwrap();
        [libc::SIGBUS, libc::SIGPIPE, libc::SIGCHLD].map(|signal| bits & 1 << (signal - 1) != 0)
    };
    assert_eq!(ignored(&[]), [false; 3]);
    assert_eq!(ignored(&[libc::SIGBUS, libc::SIGPIPE]), [true, true, false]);
    assert_eq!(ignored(&[libc::SIGCHLD]), [false, false, true]);
}

/// Two variables apart the environment is byte for byte what it was, in its order.
#[test]
fn a_program_inherits_its_environment_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <unistd.h>\nextern char **environ;\nint main(int count, char **words) {\n\
        char *odd[] = {\"Z=1\", \"A=1\", \"A=2\", \"NOEQ\", \"LD_PRELOAD=\", \"=weird\", \"B=\", \"PATH=/usr/bin:/bin\", 0};\n\
        if (count > 1) return execve(words[1], words + 1, odd);\nfor (char **at = environ; *at; at++) puts(*at);\nreturn 0; }\n";
    std::fs::write(folder.path().join("odd.c"), source).unwrap();
    assert!(
        Command::new("cc")
            .current_dir(folder.path())
            .args(["-o", "odd", "odd.c"])
            .status()
            .unwrap()
            .success()
    );
    let mut odd = Command::new("./odd");
    odd.current_dir(folder.path()).args([
        env!("CARGO_BIN_EXE_heaplab"),
        "record",
        "-q",
        "-o",
        "x.heaplab",
        "--",
        "./odd",
    ]);
    let output = odd.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let names: Vec<&str> =
        said.lines()
            .map(|line| {
                if line.starts_with("LD_") || line.starts_with("HEAP") { &line[..7] } else { line }
            })
            .collect();
    assert_eq!(
        names,
        ["Z=1", "A=1", "A=2", "NOEQ", "LD_PREL", "=weird", "B=", "PATH=/usr/bin:/bin", "HEAPLAB"],
        "{said}"
    );
}

/// A program that sends a signal to its group, in which heaplab is, gets it as often as without
/// heaplab, and no number of them ends the recording. What is sent to heaplab alone it gets once.
#[test]
fn a_program_gets_each_signal_once() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("x.heaplab");
    let record = |script: &str| {
        let mut command = heaplab();
        command
            .args(["record", "-q", "--force", "--no-symbols", "-o"])
            .arg(&output)
            .args(["--", "bash", "-c", script])
            .process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let to_group = "n=0; trap 'n=$((n+1))' TERM; for i in 1 2 3 4; do kill -TERM 0; sleep 0.2; done; (trap : TERM; kill -TERM 0; sleep 0.5); sleep 0.2; echo $n; exit 6";
    let ended = record(to_group).wait_with_output().unwrap();
    // The last is from a child.
    assert_eq!(
        (text(&ended.stdout).trim(), ended.status.code()),
        ("5", Some(6)),
        "{}",
        text(&ended.stderr)
    );
    assert_eq!(Bundle::open(&output).unwrap().meta().cut, None);
    let ready = folder.path().join("ready");
    let script = format!(
        "n=0; trap 'n=$((n+1))' TERM; : > '{}'; while [ $n = 0 ]; do sleep 0.05; done; sleep 0.2; echo $n; exit 7",
        ready.display()
    );
    let recorder = record(&script);
    wait_until("the program is ready", || ready.exists());
    let sent = Command::new("kill").args(["-TERM", &recorder.id().to_string()]).status().unwrap();
    let ended = recorder.wait_with_output().unwrap();
    assert!(sent.success());
    assert_eq!(
        (text(&ended.stdout).trim(), ended.status.code()),
        ("1", Some(7)),
        "{}",
        text(&ended.stderr)
    );
}
