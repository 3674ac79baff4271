//! The report beside `jcmd VM.metaspace` of the same JVM at the same moment: JDK 17 (or what `java`
//! is), 21 and 25, each once with room and once at a `MaxMetaspaceSize` that refuses requests.

use super::help::*;
use heaplab_trace::bundle::Bundle;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `java` of the JDK in this environment variable; `None`, with a line, where there is none that
/// runs.
pub fn java_of(variable: &str) -> Option<String> {
    let java = std::env::var_os(variable)
        .map(|home| PathBuf::from(home).join("bin/java").display().to_string());
    let java = java.filter(|java| {
        Command::new(java).arg("-version").output().is_ok_and(|output| output.status.success())
    });
    if java.is_none() {
        heaplab_oracle::skip(format_args!("{variable} names no JDK that runs"));
    }
    java
}

/// Lines as words, from the line that contains `from` to the next blank one.
fn section(text: &str, from: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.contains(from)).skip(1);
    let lines =
        lines.skip_while(|line| line.trim().is_empty()).take_while(|line| !line.trim().is_empty());
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ,", ","))
        .collect()
}

/// A line of a free list: its size and how many chunks it has.
fn chunks(line: &str) -> Option<(String, u64)> {
    let (size, rest) = line.split_once(": ")?;
    Some((size.into(), rest.split(',').next()?.parse().ok()?))
}

/// What the JVM says when it has come to rest, and what heaplab says of that moment.
fn both(java: &[&str], arguments: [&str; 3], folder: &Path) -> (String, String) {
    let (judge, bundle, at_rest) = at_rest(java, arguments, &["VM.metaspace"], folder);
    let report = heaplab()
        .arg("report")
        .arg(&bundle)
        .args(["--at", &at_rest])
        .env("COLUMNS", "200")
        .output()
        .unwrap();
    (judge, text(&report.stdout))
}

/// What the JVM says when it has come to rest, its recording, and the mark of that moment.
fn at_rest(
    java: &[&str],
    arguments: [&str; 3],
    asked: &[&str],
    folder: &Path,
) -> (String, PathBuf, String) {
    let bundle = folder.join("loaders.heaplab");
    let under_way = start(&bundle, java, arguments);
    let jcmd = || {
        // It waits for the JVM as long as it takes.
        let words = ["-J-Dsun.tools.attach.attachTimeout=600000", &under_way.jvm.to_string()];
        let output = Command::new("jcmd").args(words).args(asked).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    // The first one makes the JVM load what answers, and threads that compile go on for a while;
    // sooner or later it says the same twice, and what was between was as it says: it says how
    // often everything happened.
    let mut judge = jcmd();
    let at_rest = (0..200).map(|attempt| format!("at rest {attempt}")).find(|name| {
        let marked =
            heaplab().args(["mark", "-o", bundle.to_str().unwrap(), name]).output().unwrap();
        assert!(marked.status.success(), "{}", text(&marked.stderr));
        let again = jcmd();
        std::mem::replace(&mut judge, again) == judge
    });
    let at_rest = at_rest.unwrap_or_else(|| panic!("the JVM does not come to rest: {judge}"));
    let output = under_way.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let recorded = Bundle::open(&bundle).unwrap();
    recorded.verify().unwrap();
    assert!(!recorded.meta().gaps, "{:?}", recorded.meta().losses);
    (judge, bundle, at_rest)
}

/// Every figure of the report that jcmd has too is jcmd's.
fn compare(judge: &str, report: &str) {
    let same = |heading: &str| {
        let (ours, theirs) = (section(report, heading), section(judge, heading));
        assert!(ours == theirs && !ours.is_empty(), "{heading}\n{ours:#?}\n{theirs:#?}");
    };
    // "Total Usage - 600 loaders, 1712 classes (494 shared):"; those of the CDS archive are not in
    // the log.
    let total = |text: &str| -> Vec<u64> {
        let line = text.lines().find(|line| line.starts_with("Total Usage - ")).unwrap();
        line.split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    let (ours, theirs) = (total(report), total(judge));
    let shared = theirs.get(2).copied().unwrap_or(0);
    assert!(ours == [theirs[0], theirs[1] - shared], "{ours:?} {theirs:?}");
    same("Total Usage - ");
    same("Virtual space:");
    // jcmd says every class chunk; it adds the non-class ones twice.
    let free = |text: &str, heading: &str| -> Vec<(String, u64)> {
        let list = text.split("Chunk freelists:").nth(1).unwrap();
        section(list, heading).iter().filter_map(|line| chunks(line)).collect()
    };
    let theirs: Vec<_> =
        free(judge, "   Non-Class:").into_iter().map(|(size, count)| (size, count / 2)).collect();
    let non_class: Vec<_> = free(report, "   Non-Class:");
    assert!(non_class.starts_with(&theirs) && theirs.len() > 4, "{non_class:?} {theirs:?}");
    // Every line of the class list, with its capacity and what of it is committed, and the sum.
    let class = |text: &str| -> Vec<String> {
        let list = text.replace("   Non-Class:", "");
        let list = section(list.split("Chunk freelists:").nth(1).unwrap(), "   Class:");
        list.into_iter().filter(|line| !line.ends_with("(none)")).collect()
    };
    assert_eq!(class(report), class(judge));
    // The waste, but for what contains the free chunks that jcmd counts twice.
    let waste = |text: &str| -> Vec<String> {
        let lines = section(text, "Waste (unused committed space)").into_iter();
        lines
            .filter(|line| !line.starts_with("In free chunks:") && !line.starts_with("-total-:"))
            .collect()
    };
    assert!(
        waste(report) == waste(judge) && waste(report).len() == 3,
        "{:?} {:?}",
        waste(report),
        waste(judge)
    );
    // Every counter that the report has is HotSpot's own, exactly.
    let (ours, theirs) =
        (section(report, "Internal statistics:"), section(judge, "Internal statistics:"));
    assert!(
        ours.len() == 11 && ours.iter().all(|line| theirs.contains(line)),
        "{ours:#?} {theirs:#?}"
    );
    let headers = report
        .lines()
        .find(|line| line.starts_with("chunk header pool: "))
        .unwrap()
        .trim_end_matches('.');
    assert!(judge.contains(headers), "{headers}: {judge}");
    assert!(
        section(report, "Settings:").iter().all(|line| section(judge, "Settings:").contains(line)),
        "{report}\n{judge}"
    );
}

fn judged(java: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let classes = classes(&built);
    let (judge, report) = both(&[java, "-cp", &classes], ["600", "10", "0"], folder.path());
    compare(&judge, &report);
    assert!(judge.contains("num_allocs_failed_limit: 0."), "{judge}");
    let full = tempfile::tempdir().unwrap();
    let (judge, report) =
        both(&[java, "-XX:MaxMetaspaceSize=12m", "-cp", &classes], ["5000", "1", "0"], full.path());
    compare(&judge, &report);
    assert!(!judge.contains("num_allocs_failed_limit: 0."), "{judge}");
}

#[test]
fn the_report_is_what_jcmd_says() {
    judged("java");
}

/// Without compressed class pointers there is no class space: classes lie among everything else,
/// and are told by what the log calls them.
#[test]
fn classes_are_as_many_as_jcmd_says_where_there_is_no_class_space() {
    let folder = tempfile::tempdir().unwrap();
    let Some(built) = compiled(folder.path()) else { return };
    let java = ["java", "-XX:-UseCompressedClassPointers", "-cp", &classes(&built)];
    let (judge, bundle, at_rest) =
        at_rest(&java, ["600", "10", "0"], &["VM.metaspace", "show-loaders"], folder.path());
    let report =
        heaplab().arg("report").arg(&bundle).args(["--at", &at_rest, "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let ours = &report["metaspace"]["statistics"];
    // "  18: CLD 0x...: instance of Loaders$Loader, 2 classes"
    let counted = |what: &str| -> Vec<u64> {
        let lines = judge.lines().filter(|line| line.contains("CLD 0x") && line.contains(what));
        lines
            .map(|line| {
                line.rsplit(", ").next().unwrap().split(' ').next().unwrap().parse().unwrap()
            })
            .collect()
    };
    let loaders = ours["largest_loaders"].as_array().unwrap();
    let of = |kind: &str| -> Vec<u64> {
        loaders
            .iter()
            .filter(|loader| loader["kind"] == kind)
            .map(|loader| loader["classes"].as_u64().unwrap())
            .collect()
    };
    let boot: Vec<u64> =
        counted("\"<bootstrap>\"").into_iter().filter(|classes| *classes > 1).collect();
    assert!(of("boot") == boot && boot.len() == 1, "{:?} {boot:?}", of("boot"));
    let each = counted("Loaders$Loader");
    assert!(each.len() >= 10 && of("standard").len() >= 5, "{judge}");
    assert!(
        of("standard").iter().all(|classes| each.contains(classes)),
        "{:?} {each:?}",
        of("standard")
    );
    // And the only space is what jcmd says of it.
    let bytes = |field: &str| ours["non_class"][field].as_u64().unwrap();
    let line = format!(
        "{:.2} MB reserved, {:.2} MB",
        bytes("reserved_bytes") as f64 / 1048576.0,
        bytes("committed_bytes") as f64 / 1048576.0
    );
    assert!(section(&judge, "Virtual space:")[0].starts_with(&line), "{line}\n{judge}");
    assert!(judge.contains(&format!("Total Usage - {} loaders, ", ours["loaders"])), "{judge}");
    assert_eq!(ours["class"]["committed_bytes"], 0);
}

#[test]
fn the_report_is_what_jcmd_of_jdk_21_says() {
    java_of("HEAPLAB_JDK21").iter().for_each(|java| judged(java));
}

#[test]
fn the_report_is_what_jcmd_of_jdk_25_says() {
    java_of("HEAPLAB_JDK25").iter().for_each(|java| judged(java));
}
