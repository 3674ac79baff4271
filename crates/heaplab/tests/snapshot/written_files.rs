//! Commands that write a snapshot file (convert, trim, redact), and files that they wrote.

use super::*;

#[test]
fn what_is_written_anew_does_not_take_the_place_of_what_was_read() {
    let (files, path) = Files::with("node20-names");
    let before = std::fs::read(&path).unwrap();
    let same = files.path(".").join(path.file_name().unwrap());
    for words in [&["trim", "Twin"][..], &["convert", "--to", "lines"], &["redact"]] {
        let refused =
            heaplab(&[words[0]], &path, &[&words[1..], &["-o", same.to_str().unwrap()]].concat());
        assert!(
            !refused.status.success()
                && String::from_utf8_lossy(&refused.stderr)
                    .contains("is the input, which the output would replace"),
            "{refused:?}"
        );
        assert!(std::fs::read(&path).unwrap() == before, "{words:?}");
    }
}

#[test]
fn files_are_written_anew_and_nothing_changes_but_what_was_asked_for() {
    let (files, path) = Files::with("node20-names");
    let summary = |path: &Path| json(&heaplab(&["summary"], path, &["--json"]));
    let lines = files.path("lines.heapsnapshot");
    text(&heaplab(&["convert"], &path, &["--to", "lines", "-o", lines.to_str().unwrap()]));
    assert_eq!(summary(&lines), summary(&path));
    let same = json(&heaplab(&["diff"], &path, &[lines.to_str().unwrap(), "--json"]));
    assert_eq!(same["classes"].as_array().unwrap().len(), 0, "the same objects");
    let redacted = files.path("redacted.heapsnapshot");
    text(&heaplab(&["redact"], &path, &["-o", redacted.to_str().unwrap()]));
    let (before, after) = (summary(&path), summary(&redacted));
    assert_eq!(
        (&before["nodes"], &before["total_bytes"]),
        (&after["nodes"], &after["total_bytes"])
    );
    let secret = "duplicated text of some length";
    assert!(String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(secret));
    assert!(!String::from_utf8_lossy(&std::fs::read(&redacted).unwrap()).contains(secret));
    let strings = |path: &Path| {
        json(&heaplab(&["strings"], path, &["--json"]))["strings"].as_array().unwrap().len()
    };
    assert_eq!(strings(&path), strings(&redacted), "what was equal is equal");
    let series = json(&heaplab(
        &["diff"],
        &path,
        &[lines.to_str().unwrap(), path.to_str().unwrap(), "--json"],
    ));
    assert_eq!(
        (series["format"].as_str(), series["growing"].as_array().unwrap().len()),
        (Some("heaplab-snapshot-series"), 0)
    );
}

#[test]
fn what_a_conversion_loses_is_said_and_counted() {
    let (files, path) = Files::with("chromium-dom");
    let new = files.path("new.heapsnapshot");
    let convert = |to: &str| {
        heaplab(&["convert"], &path, &["--to", to, "-o", new.to_str().unwrap(), "--json"])
    };
    let output = convert("node12");
    let lost = &json(&output)["lost"];
    let said =
        String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    let states = json(&heaplab(
        &["query"],
        &path,
        &["where type = \"native\" and class ~ \"Detached *\" | group detached", "--json"],
    ));
    assert!(lost["detached"].as_u64().unwrap() > 0 && states["found"] == 1, "{lost}");
    assert!(
        said.contains(&format!("the state `detached` of {} nodes", lost["detached"])),
        "{said}"
    );
    assert!(
        said.contains(" scopes of scripts") && said.ends_with("--help says what that changes"),
        "{said}"
    );
    let found = |query: &str| {
        json(&heaplab(&["query"], &new, &[query, "--json"]))["found"].as_u64().unwrap()
    };
    assert_eq!((found("where type = \"object shape\""), found("where detached = 1")), (0, 0));
    let output = convert("same");
    assert!(
        output.stderr.is_empty() && json(&output)["lost"]["types"] == serde_json::json!({}),
        "{output:?}"
    );
}

#[test]
fn a_trimmed_file_answers_about_what_is_left() {
    let (files, path) = Files::with("node20-names");
    let trimmed = files.path("trimmed.heapsnapshot");
    text(&heaplab(&["trim"], &path, &["Twin", "-o", trimmed.to_str().unwrap()]));
    assert!(
        std::fs::metadata(&trimmed).unwrap().len() < std::fs::metadata(&path).unwrap().len() / 4
    );
    let rows = |path: &Path| {
        json(&heaplab(
            &["query"],
            path,
            &["where class = \"Twin\" | sort id | select id, shallow, retained", "--json"],
        ))
    };
    assert_eq!(
        (&rows(&trimmed), &rows(&trimmed)["found"]),
        (&rows(&path), &10.into()),
        "the same objects with the same sizes"
    );
    let held = json(&heaplab(&["path"], &trimmed, &["Twin", "--json"]));
    let names: Vec<&str> = held["paths"][0]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["edge"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[1..3], ["held", "made"]);
}

#[test]
fn what_writes_a_file_tells_machines_too() {
    let (files, path) = Files::with("node20-names");
    let out = files.path("out.heapsnapshot");
    let out_text = out.to_str().unwrap();
    for (words, more, member) in [
        (vec!["redact"], vec!["--key", "k"], "kept"),
        (vec!["trim"], vec!["Twin"], "nodes_before"),
        (vec!["convert"], vec!["--to", "node24"], "to"),
    ] {
        let words_all = [&more[..], &["-o", out_text, "--json"]].concat();
        let told = heaplab(&words, &path, &words_all);
        let answer = json(&told);
        assert_eq!(
            answer["bytes"].as_u64(),
            Some(std::fs::metadata(&out).unwrap().len()),
            "{answer}"
        );
        assert!(
            answer["format"] == format!("heaplab-snapshot-{}", words[0])
                && !answer[member].is_null(),
            "{answer}"
        );
        let both = heaplab(&words, &path, &[&more[..], &["-o", "-", "--json"]].concat());
        assert!(!both.status.success() && both.stdout.is_empty(), "{words:?}");
        let warned = String::from_utf8_lossy(&told.stderr).contains("the key has 1 bytes");
        assert_eq!(warned, words == ["redact"], "a short key is warned of");
    }
}

#[test]
fn a_packed_file_is_read_as_what_is_in_it() {
    let (files, path) = Files::with("node12-weak");
    let bytes = std::fs::read(&path).unwrap();
    let expected = json(&heaplab(&["summary"], &path, &["--json"]));
    for (name, packed) in [
        ("a.heapsnapshot.gz", gzip(&bytes)),
        ("a", gzip(&bytes)),
        ("a.heapsnapshot.zst", zstd::encode_all(&bytes[..], 1).unwrap()),
    ] {
        let file = files.path(name);
        std::fs::write(&file, packed).unwrap();
        assert_eq!(json(&heaplab(&["summary"], &file, &["--json"])), expected, "{name}");
    }
    let cut = files.path("cut.gz");
    std::fs::write(&cut, &gzip(&bytes)[..10_000]).unwrap();
    let refused = String::from_utf8(heaplab(&["validate"], &cut, &[]).stderr).unwrap();
    assert!(
        refused.contains("cannot be unpacked behind ") && refused.contains("snapshot repair"),
        "{refused}"
    );
    // What came is mended.
    for (name, packed) in
        [("cut.gz", gzip(&bytes)), ("cut.zst", zstd::encode_all(&bytes[..], 1).unwrap())]
    {
        let (cut, whole) = (files.path(name), files.path("mended.heapsnapshot"));
        std::fs::write(&cut, &packed[..packed.len() * 2 / 3]).unwrap();
        let repaired = heaplab(&["repair"], &cut, &["-o", whole.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&repaired.stderr);
        assert!(
            said.contains("cannot be unpacked behind ") && said.contains("missing: "),
            "{said}"
        );
        let summary = json(&heaplab(&["summary"], &whole, &["--json"]));
        assert_eq!(summary["nodes"], expected["nodes"], "{name}: the nodes come first");
    }
}
