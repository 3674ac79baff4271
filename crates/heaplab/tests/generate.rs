//! `heaplab generate`: bundles that replay, what is printed, and what is refused.

use heaplab_trace::bundle::{Bundle, Selection};
use std::path::Path;
use std::process::{Command, Output};

fn heaplab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_generated_bundle_is_sound_repeats_and_replays() {
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path();
    let statement = "sizes=web,lifetimes=random,births=30000,slots=1000,seed=7";
    let output = heaplab(folder, &["generate", statement, "-o", "w.heaplab"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output)
            .starts_with(&format!("w.heaplab: heaplab generate {statement}\n  objects born")),
        "{}",
        said(&output)
    );
    let bundle = Bundle::open(&folder.join("w.heaplab")).unwrap();
    bundle.verify().unwrap();
    assert_eq!(
        (bundle.meta().objects, bundle.meta().death_rule.as_str()),
        (30_000, heaplab_trace::FREED_BY_PROGRAM)
    );
    let output = heaplab(folder, &["generate", statement, "-o", "again.heaplab", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (json["births"].as_u64(), json["collections"].as_u64()),
        (Some(30_000), Some(10)),
        "{json}"
    );
    let events = |name: &str| {
        let mut events = Vec::new();
        let bundle = Bundle::open(&folder.join(name)).unwrap();
        heaplab_trace::EventSource::for_each(
            &mut bundle.events(Selection::default()).unwrap(),
            |event| {
                events.push(*event);
                Ok(())
            },
        )
        .unwrap();
        events
    };
    assert!(events("w.heaplab") == events("again.heaplab"));
    let output =
        heaplab(folder, &["replay", "w.heaplab", "--on", "glibc,textbook:mark-sweep", "--verify"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn what_cannot_be_generated_is_refused_and_nothing_is_left() {
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path();
    std::fs::write(folder.join("bad.csv"), "64,1\nlarge,2\n").unwrap();
    for (statement, status, words) in [
        ("sizes=huge", 2, "sizes takes octane, web"),
        ("size=web", 2, "what can: sizes, lifetimes"),
        ("lifetimes=queue,die=5", 2, "no meaning with lifetimes=queue"),
        ("uniform=100-10", 2, "no multiple of 8 from 100 to 10"),
        ("lifetimes=fragmentation,seed=2", 2, "seed has no meaning"),
        ("sizes=file:missing.csv", 1, "cannot open missing.csv"),
        ("sizes=file:bad.csv", 1, "line 2: expected a size in bytes"),
    ] {
        let output = heaplab(folder, &["generate", statement, "-o", "w.heaplab"]);
        assert_eq!(output.status.code(), Some(status), "{statement}: {}", said(&output));
        assert!(said(&output).contains(words), "{statement}: {}", said(&output));
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
}
