//! `heaplab record --jvm-memory`: the parts of a JVM's resident memory by the JVM's own categories,
//! beside `jcmd VM.native_memory` of the same JVM.

use super::help::*;
use super::jcmd::java_of;
use heaplab_trace::bundle::Bundle;
use heaplab_trace::tables::{ResidentKind, ResidentPart};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// A heap of fixed size, every page of it touched.
const HEAP: [&str; 4] = ["-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC"];

/// The bytes that a JVM says it reserved and committed by mmap for a category:
///
/// ```text
/// -                 Java Heap (reserved=65536KB, committed=65536KB)
///                             (mmap: reserved=65536KB, committed=65536KB)
/// ```
fn mapped(judge: &str, category: &str) -> (u64, u64) {
    let head = format!("{category} (reserved=");
    let lines =
        judge.lines().skip_while(|line| !line.trim_start_matches(['-', ' ']).starts_with(&head));
    let line = lines
        .skip(1)
        .take_while(|line| !line.starts_with('-'))
        .find(|line| line.contains("(mmap: "));
    let line = line.unwrap_or_else(|| panic!("{category}: {judge}"));
    let bytes = |field: &str| {
        let value = line.split(field).nth(1).unwrap().split("KB").next().unwrap();
        value.parse::<u64>().unwrap() * 1024
    };
    (bytes("reserved="), bytes("committed="))
}

/// Runs a recording that lasts long enough for a question, its answer, and a reading after it. How
/// long that is depends on the machine's load: longer runs follow one that was too short.
fn long_enough<T>(mut run: impl FnMut(Duration) -> T, is_enough: impl Fn(&T) -> bool) -> T {
    let short = run(Duration::from_secs(3));
    if is_enough(&short) {
        return short;
    }
    let longer = run(Duration::from_secs(12));
    if is_enough(&longer) { longer } else { run(Duration::from_secs(60)) }
}

/// What the JVM says, and the parts of the last reading of its memory.
fn both(java: &str, rest: Duration) -> Option<(String, Vec<ResidentPart>, String)> {
    let folder = tempfile::tempdir().unwrap();
    let built = compiled(folder.path())?;
    let bundle = folder.path().join("x.heaplab");
    let classes = classes(&built);
    let command = [&[java][..], &HEAP, &["-cp", &classes]].concat();
    let options = ["--jvm-memory", "--samples", "20"];
    let under_way = start_recording(&bundle, &options, &command, ["600", "10", "0"]);
    // A JVM answers one question after the other: heaplab's first one was before this one.
    let jcmd = || {
        let words = ["-J-Dsun.tools.attach.attachTimeout=600000", &under_way.jvm.to_string()];
        Command::new("jcmd").args(words).args(["VM.native_memory", "summary"]).output().unwrap()
    };
    jcmd();
    // Time for another question and the reading after it.
    std::thread::sleep(rest);
    let judge = jcmd();
    assert!(judge.status.success(), "{}", text(&judge.stderr));
    let output = under_way.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let recorded = Bundle::open(&bundle).unwrap();
    recorded.verify().unwrap();
    let resident = &recorded.tables().resident;
    let last = resident.last().expect("readings").time_ns;
    let parts = resident.iter().filter(|part| part.time_ns == last).cloned().collect();
    Some((text(&judge.stdout), parts, report(&bundle)))
}

fn report(bundle: &Path) -> String {
    let output = heaplab().arg("report").arg(bundle).env("COLUMNS", "200").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Every category is where and as large as the JVM says, and nearly nothing is left without one.
fn judged(java: &str) {
    let heap = "the JVM's Java Heap (of 64.0 MiB committed, 64.0 MiB reserved)";
    let found = long_enough(
        |rest| both(java, rest),
        |found| found.as_ref().is_none_or(|(_, _, report)| report.contains(heap)),
    );
    let Some((judge, parts, report)) = found else { return };
    let of = |name: &str| -> (u64, u64, u64) {
        let of = parts.iter().filter(|part| part.name == format!("JVM: {name}"));
        of.fold((0, 0, 0), |sum, part| {
            (sum.0 + part.bytes, sum.1 + part.reserved_bytes, sum.2 + part.committed_bytes)
        })
    };
    assert_eq!(of("Java Heap"), (64 * MIB, 64 * MIB, 64 * MIB), "{parts:#?}");
    assert_eq!(mapped(&judge, "Java Heap"), (64 * MIB, 64 * MIB));
    for category in ["Code", "Class", "GC"] {
        let (resident, reserved, committed) = of(category);
        let (by_judge, committed_by_judge) = mapped(&judge, category);
        assert_eq!(reserved, by_judge, "{category}: {judge}\n{parts:#?}");
        assert!(resident > 0 && resident <= committed, "{category}: {resident} of {committed}");
        assert!(committed <= committed_by_judge, "{category}: {committed} {committed_by_judge}");
    }
    let stacks = parts.iter().filter(|part| part.name == "JVM: Thread Stack");
    assert!(stacks.clone().all(|part| part.kind == ResidentKind::Stack));
    assert!(stacks.map(|part| part.bytes).sum::<u64>() > 100 << 10, "{parts:#?}");
    // What the JVM maps has the JVM's name for it.
    let total: u64 = parts.iter().map(|part| part.bytes).sum();
    let is_unnamed = |part: &&ResidentPart| match part.kind {
        ResidentKind::Mapped => !part.name.starts_with("JVM: "),
        kind => kind == ResidentKind::Unknown,
    };
    let unnamed: u64 = parts.iter().filter(is_unnamed).map(|part| part.bytes).sum();
    assert!(unnamed <= total / 50, "{unnamed} of {total}: {parts:#?}");
    assert!(report.contains(heap), "{report}");
}

#[test]
fn a_jvm_names_the_purposes_of_its_memory() {
    judged("java");
}

#[test]
fn a_jvm_21_names_the_purposes_of_its_memory() {
    java_of("HEAPLAB_JDK21").iter().for_each(|java| judged(java));
}

#[test]
fn a_jvm_25_names_the_purposes_of_its_memory() {
    java_of("HEAPLAB_JDK25").iter().for_each(|java| judged(java));
}

#[test]
fn a_launcher_gets_the_options_by_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let bundle = folder.path().join("x.heaplab");
    let script = format!("exec java {} -cp {} \"$@\"", HEAP.join(" "), classes(&built));
    let launch = ["sh", "-c", &script, "launch"];
    let options = ["--jvm-memory", "--samples", "20"];
    let run = |rest| {
        let _ = std::fs::remove_dir_all(&bundle);
        let under_way = start_recording(&bundle, &options, &launch, ["20", "5", "0"]);
        std::thread::sleep(rest);
        let output = under_way.end();
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("Picked up JDK_JAVA_OPTIONS: "), "{said}");
        report(&bundle)
    };
    let heap = "the JVM's Java Heap (of 64.0 MiB";
    let report = long_enough(run, |report: &String| report.contains(heap));
    assert!(report.contains(heap), "{report}");
}

#[test]
fn no_answer_is_a_loss_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let bundle = folder.path().join("x.heaplab");
    let java = ["java", "-XX:NativeMemoryTracking=off", "-cp", &classes(&built)];
    let run = |rest| {
        let _ = std::fs::remove_dir_all(&bundle);
        let under_way = start_recording(&bundle, &["--jvm-memory"], &java, ["20", "5", "0"]);
        std::thread::sleep(rest);
        let output = under_way.end();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        said
    };
    let reason =
        "the JVM did not answer --jvm-memory; it said: Native memory tracking is not enabled";
    let said = long_enough(run, |said: &String| said.contains(reason));
    assert!(said.contains(reason), "{said}");
    let none = heaplab()
        .args(["record", "--jvm-memory", "-o"])
        .arg(folder.path().join("none.heaplab"))
        .args(["--", "sh", "-c", "sleep 0.3"])
        .output()
        .unwrap();
    assert!(
        text(&none.stderr).contains("no JVM listened for the question"),
        "{}",
        text(&none.stderr)
    );
    let refused =
        heaplab().args(["record", "--jvm-memory", "--samples", "0", "--", "true"]).output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--samples 0 takes none"), "{}", text(&refused.stderr));
}
