//! Heaps of the lab, which run the workload of a recording.

use super::*;

/// A workload whose live bytes are four times the least that OCaml's heap begins with.
fn generated(folder: &Path) {
    let statement = "sizes=uniform:16-200,lifetimes=random,births=100000,slots=20000,collect=0";
    let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["generate", statement, "-o", "g.heaplab"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn heaps_of_the_lab_trade_space_for_cycles() {
    let folder = tempfile::tempdir().unwrap();
    generated(folder.path());
    let on = "textbook:mark-sweep,ocaml:best-fit,s=4k,h=60k";
    let vary = [
        "--vary",
        "overhead=50..200x3",
        "--on",
        on,
        "--reps",
        "2",
        "--space",
        "committed",
        "--no-default",
    ];
    let found = json(
        folder.path(),
        &[&["g.heaplab", "--json", "--results", "out", "--csv", "a.csv"], &vary[..]].concat(),
    );
    assert_eq!(found["workload"]["objects"], 100_000);
    assert_eq!(found["settings"]["time"], "cpu");
    for variant in 0..2 {
        let points = found["variants"][variant]["points"].as_array().unwrap();
        let of = |field: &str| -> Vec<f64> {
            let settings = points.iter().filter(|point| !point["value"].is_null());
            settings.map(|point| point["medians"][field].as_f64().unwrap()).collect()
        };
        let (cycles, garbage, committed) =
            (of("cycles"), of("garbage_bytes"), of("committed_bytes"));
        assert!(cycles.windows(2).all(|pair| pair[0] > pair[1]), "cycles fall: {cycles:?}");
        assert!(garbage.windows(2).all(|pair| pair[0] < pair[1]), "garbage rises: {garbage:?}");
        assert!(committed.windows(2).all(|pair| pair[0] < pair[1]), "space rises: {committed:?}");
        assert!(of("peak_anonymous_bytes").iter().all(|bytes| *bytes > 2e6));
        assert_eq!(points.len(), 3);
    }
    // What was measured is not run again, and space is the same in every block.
    let rows = text(&std::fs::read(folder.path().join("a.csv")).unwrap());
    assert_eq!(rows.lines().count(), 1 + 2 * 6);
    let begin = Instant::now();
    let again =
        json(folder.path(), &[&["g.heaplab", "--json", "--results", "out"], &vary[..]].concat());
    assert_eq!(again["variants"], found["variants"], "within {:?}", begin.elapsed());
    let space = &found["variants"][0]["points"][0]["space_bytes"];
    assert_eq!((&space["low"], &space["high"]), (&space["value"], &space["value"]));
    let other = run(
        folder.path(),
        &[&["g.heaplab", "--touch", "all", "--results", "out"], &vary[..]].concat(),
    );
    assert!(text(&other.stderr).contains("another experiment"), "{}", text(&other.stderr));
}

#[test]
fn the_least_limit_of_a_heap_is_found() {
    let folder = tempfile::tempdir().unwrap();
    generated(folder.path());
    let output = run(
        folder.path(),
        &["g.heaplab", "--on", "textbook:mark-sweep", "--vary", "limit={2..16x2}m", "--min-heap"],
    );
    let said = joined(&output.stdout);
    let least = said
        .split_once("the least that runs is limit=")
        .and_then(|(_, rest)| rest.split_once('m')?.0.parse::<u32>().ok());
    assert!(least.is_some_and(|mib| (3..=12).contains(&mib)), "{said}{}", text(&output.stderr));
    assert!(said.contains("out of memory"), "{said}");
}

#[test]
fn a_signal_ends_a_replay_and_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    generated(folder.path());
    let child = heaplab(
        folder.path(),
        &["g.heaplab", "--on", "ocaml:next-fit", "--vary", "o=20..320x6", "--results", "out"],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    wait_until("a block's file", || folder.path().join("out/block-00000.json").exists());
    let begin = Instant::now();
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15), "{}", text(&output.stderr));
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert!(joined(&output.stdout).contains("It ended early (interrupted)"));
}
