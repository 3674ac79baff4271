//! An index beside the file: equal answers, and no answers for another file.

use super::*;

#[test]
fn an_index_answers_every_question_as_its_file_does() {
    let (files, path) = Files::with("node20-names");
    std::fs::write(files.path("b.heapsnapshot"), later(&path)).unwrap();
    let (older, newer) = (path.to_str().unwrap(), files.path("b.heapsnapshot"));
    let newer = newer.to_str().unwrap();
    let inode = |path: &str| {
        let metadata = std::fs::metadata(format!("{path}.index")).unwrap();
        std::os::unix::fs::MetadataExt::ino(&metadata)
    };
    let trimmed = files.path("trimmed.heapsnapshot");
    let questions: [&[&str]; 12] = [
        &["summary", older, "--json"],
        &["summary", older, "--json", "--filter", "contexts"],
        &["retainers", older, "Twin"],
        &["path", older, "Twin", "--json"],
        &["dominators", older],
        &["object", older, "Twin", "--json"],
        &["strings", older, "--json"],
        &["check", older, "--assert", "count(Twin) >= 1"],
        &["query", older, "group type"],
        &["diff", older, newer, "--json"],
        &["summary", newer, "--since", older, "--json"],
        &["trim", older, "Twin", "-o", trimmed.to_str().unwrap()],
    ];
    let ask = |words: &[&str], more: &[&str]| {
        let (question, rest) = words.split_first().unwrap();
        let said = text(&heaplab(&[question], Path::new(rest[0]), &[&rest[1..], more].concat()));
        let written = std::fs::read_to_string(&trimmed).unwrap_or_default();
        std::fs::remove_file(&trimmed).ok();
        said + &written
    };
    let mut kept = None;
    for words in questions {
        let fresh = ask(words, &[]);
        assert_eq!(ask(words, &["--index"]), fresh, "{words:?}, which may write it");
        assert_eq!(ask(words, &["--index"]), fresh, "{words:?}, from it");
        assert_eq!(*kept.get_or_insert_with(|| inode(older)), inode(older), "{words:?}");
    }
    let both = inode(newer);
    let leaks = ["leaks", older, newer, newer];
    assert!(!heaplab(&leaks[..1], &path, &[newer, newer, "--index"]).status.success());
    std::fs::copy(newer, files.path("c.heapsnapshot")).unwrap();
    let last = files.path("c.heapsnapshot");
    let leaks = ["leaks", older, newer, last.to_str().unwrap(), "--json"];
    let fresh = ask(&leaks, &[]);
    assert_eq!(ask(&leaks, &["--index"]), fresh);
    assert_eq!(ask(&leaks, &["--index"]), fresh);
    assert_eq!((kept, both), (Some(inode(older)), inode(newer)), "used, not written anew");
}

#[test]
fn an_index_answers_for_its_file_alone() {
    let (files, path) = Files::with("node12-weak");
    let fresh = text(&heaplab(&["summary", "--index"], &path, &["--json"]));
    let index = files.path("a.heapsnapshot.index");
    let written = std::fs::read(&index).unwrap();
    let rows = files.path("rows.parquet");
    text(&heaplab(&["query"], &path, &["group type", "-o", rows.to_str().unwrap()]));
    for private in [&index, &rows] {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(private).unwrap().permissions(),
        );
        assert_eq!(mode & 0o077, 0, "{}: what has secrets is its owner's alone", private.display());
    }
    let mut flipped = written.clone();
    flipped[written.len() / 2] ^= 1;
    for damaged in [&written[..40], &[], &flipped] {
        std::fs::write(&index, damaged).unwrap();
        assert_eq!(text(&heaplab(&["summary", "--index"], &path, &["--json"])), fresh);
        assert!(std::fs::read(&index).unwrap() == written, "a damaged one is written anew");
    }
    std::fs::write(&path, unpacked("node20-names.heapsnapshot.gz")).unwrap();
    assert_ne!(
        text(&heaplab(&["summary", "--index"], &path, &["--json"])),
        fresh,
        "another file of that name"
    );
    assert!(std::fs::read(&index).unwrap() != written);
}

#[test]
fn an_index_that_cannot_be_written_costs_a_warning() {
    let (files, path) = Files::with("node12-weak");
    std::fs::create_dir(files.path("a.heapsnapshot.index")).unwrap();
    let output = heaplab(&["summary", "--index"], &path, &["--json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("the answer is complete, its index is not kept"), "{errors}");
    assert_eq!(text(&output), text(&heaplab(&["summary"], &path, &["--json"])));
}
