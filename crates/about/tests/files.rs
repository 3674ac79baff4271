//! Saved files: Firefox's form and back, what is impossible, and what is large or odd.

use heaplab_about::{AboutError, Model, Report, Saved, difference, page, text};
use heaplab_reporter::{Kind, Units};
use proptest::prelude::*;
use std::time::Instant;

/// By the documented form: two processes, both kinds of trees, all units, equal paths, a slash in a
/// name as a backslash.
const FIREFOX: &[u8] = include_bytes!("firefox.json");

const SHOWN: text::Shown = text::Shown { width: 80, colour: false, all: false };

fn report(path: &str, kind: Kind, units: Units, amount: i64) -> Report {
    let (process, description) = ("app (pid 7)".into(), "Something.".into());
    Report { process, path: path.into(), kind, units, amount, description, presence: None }
}

fn heap(path: &str, amount: i64) -> Report {
    report(path, Kind::Heap, Units::Bytes, amount)
}

fn allocated(amount: i64) -> Report {
    report("heap-allocated", Kind::Other, Units::Bytes, amount)
}

#[test]
fn letters_are_written_in_ascii_for_firefox() {
    let reports = vec![heap("explicit/caf\u{e9} \u{1f98a}", 5)];
    let written = Saved::new(true, reports).write(false).unwrap();
    let json = String::from_utf8(written.clone()).unwrap();
    assert!(json.contains(r#""explicit/caf\u00e9 \ud83e\udd8a""#), "{json}");
    assert_eq!(Saved::read(&written).unwrap().reports[0].path, "explicit/caf\u{e9} \u{1f98a}");
}

#[test]
fn a_file_of_firefox_is_read_shown_and_written() {
    let saved = Saved::read(FIREFOX).unwrap();
    let model = Model::of(&saved);
    assert_eq!(
        text::render(&model, SHOWN),
        "\
Main Process (pid 2711)

Explicit allocations
   96.0 MiB   100 %  explicit
   60.0 MiB  62.5 %  ├─js-non-window
   40.0 MiB  41.7 %  │ ├─zones [2]
   20.0 MiB  20.8 %  │ └─https://example.org/a.js
   26.0 MiB  27.1 %  ├─heap-unclassified
   10.0 MiB  10.4 %  └─storage
   10.0 MiB  10.4 %    └─sqlite

Other measurements
   62.0 MiB   100 %  size
   50.0 MiB  80.6 %  ├─anonymous
   12.0 MiB  19.4 %  └─libxul.so
   86.0 MiB          heap-allocated
    12.50 %          heap-overhead-ratio
      4,711          page-faults-hard
    300 MiB          resident
web (pid 2750)

Explicit allocations
   1.00 MiB   100 %  explicit
   1.00 MiB   100 %  └─dom
! there is no heap-allocated, so heap-unclassified is unknown: the allocator
! does not say what it has given out
"
    );
    let json: serde_json::Value = serde_json::from_slice(FIREFOX).unwrap();
    for packed in [false, true] {
        let written = saved.write(packed).unwrap();
        assert_eq!(written.starts_with(&[0x1f, 0x8b]), packed);
        assert_eq!(Saved::read(&written).unwrap(), saved);
        if !packed {
            assert_eq!(serde_json::from_slice::<serde_json::Value>(&written).unwrap(), json);
        }
    }
    let page = page::file(&model, "two processes");
    let link = r##"<li><a href="#process-1">web (pid 2750)</a>: 1.00 MiB</li>"##;
    assert!(page.contains(link) && page.contains(r#"<section id="process-1">"#), "{page}");
    let crash = format!(r#"{{"memory_report":{}}}"#, String::from_utf8_lossy(FIREFOX));
    assert_eq!(Saved::read(crash.as_bytes()).unwrap(), saved);
}

#[test]
fn a_reporter_that_lies_is_told() {
    let warnings =
        |reports: Vec<Report>| Model::of(&Saved::new(true, reports)).processes[0].warnings.clone();
    let more = warnings(vec![allocated(1000), heap("explicit/a", 5000)]);
    assert_eq!(
        more[0],
        "explicit/a says 4.88 KiB, but the allocator has given out only 1000 bytes"
    );
    assert!(more[1].starts_with("reporters name 3.91 KiB more than the allocator"), "{more:?}");
    let twice = warnings(vec![allocated(1000), heap("explicit/a", 600), heap("explicit/b", 600)]);
    assert!(twice.len() == 1 && twice[0].contains("200 bytes more"), "{twice:?}");
    let negative = warnings(vec![allocated(1000), heap("explicit/a", -5)]);
    assert_eq!(negative, ["explicit/a is negative: its reporter subtracts too much"]);
    let mixed = warnings(vec![
        report("a/b", Kind::Other, Units::Bytes, 1),
        report("a/b/c", Kind::Other, Units::Count, 1),
    ]);
    assert!(mixed[0].starts_with("1 report counts something else"), "{mixed:?}");
}

#[test]
fn sums_beyond_64_bits_are_told_and_do_not_depend_on_the_order() {
    let mut reports = vec![
        heap("explicit/a/b", i64::MAX),
        allocated(10 << 20),
        heap("explicit/a/b", i64::MAX),
        heap("explicit/a/c", 5),
    ];
    let shown = |reports: &[Report]| Model::of(&Saved::new(true, reports.to_vec()));
    let first = shown(&reports);
    let process = &first.processes[0];
    let explicit = process.explicit.as_ref().unwrap();
    assert_eq!(explicit.amount, 10 << 20, "what the allocator says");
    assert_eq!(explicit.child("a").unwrap().amount, i64::MAX);
    assert_eq!(explicit.child("heap-unclassified").unwrap().amount, i64::MIN);
    let beyond: Vec<&String> =
        process.warnings.iter().filter(|said| said.contains("64 bits")).collect();
    assert_eq!(
        beyond,
        ["explicit/a/b: its reports add up to more than 64 bits hold, which cannot be true; the \
             nearest number is shown"]
    );
    for _ in 0..reports.len() {
        reports.rotate_left(1);
        assert_eq!(shown(&reports).processes[0].explicit, process.explicit);
    }
    let before = Saved::new(true, vec![heap("explicit/a/b", 7)]);
    let after = difference::between(&before, &Saved::new(true, reports));
    assert_eq!(after.reports[0].amount, i64::MAX);
}

#[test]
fn a_page_of_deep_paths_is_proportional_to_their_bytes() {
    let (paths, depth) = (400, 90);
    let deep = |n: usize| (1..depth).map(|at| format!("/name{n}.{at}")).collect::<String>();
    let reports: Vec<Report> =
        (0..paths).map(|n| heap(&format!("explicit{}", deep(n)), 1 + n as i64)).collect();
    let bytes: usize = reports.iter().map(|report| report.path.len()).sum();
    let page = page::file(&Model::of(&Saved::new(true, reports)), "deep");
    assert!(page.len() < 8 * bytes, "{} bytes of {bytes} of paths", page.len());
    assert!(page.contains("name399.88/name399.89"));
}

#[test]
fn what_is_impossible_is_an_error_that_names_it() {
    let said = |json: &str| {
        let error = Saved::read(json.as_bytes()).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error} {}", cause.unwrap_or_default())
    };
    let with = |report: &str| {
        format!(r#"{{"version":1,"hasMozMallocUsableSize":true,"reports":[{report}]}}"#)
    };
    assert!(said("{").contains("EOF"));
    assert!(said(r#"{"version":2,"hasMozMallocUsableSize":true,"reports":[]}"#).contains("is 2"));
    let one = |kind: u8, units: u8, path: &str| {
        with(&format!(
            r#"{{"process":"p","path":"{path}","kind":{kind},"units":{units},"amount":1,"description":"d"}}"#
        ))
    };
    assert!(said(&one(9, 0, "a")).contains("unknown kind 9"));
    assert!(said(&one(1, 9, "a")).contains("unknown units 9"));
    assert!(said(&one(2, 0, "explicit/a")).contains("report 0 \"explicit/a\": below explicit/"));
    assert!(said(&one(1, 0, "")).contains("report 0 has no path"));
    assert!(said(&one(1, 0, &"x".repeat(70_000))).contains("70000 bytes"));
    assert!(said(&with(r#"{"process":"p"}"#)).contains("missing field"));
    assert!(matches!(Saved::read(&[0x1f, 0x8b, 8, 0]), Err(AboutError::Gzip(_))));
}

#[test]
fn many_paths_and_deep_ones_are_shown() {
    let began = Instant::now();
    let mut reports: Vec<Report> =
        (0..100_000).map(|n| heap(&format!("explicit/a/{}/{n}", n % 100), 1 + n)).collect();
    reports.push(heap(&format!("explicit/{}", "x/".repeat(20_000)), 1 << 33));
    reports.push(allocated(1 << 40));
    let saved = Saved::new(true, reports);
    let model = Model::of(&saved);
    let explicit = model.processes[0].explicit.as_ref().unwrap();
    assert_eq!(explicit.amount, 1 << 40);
    assert_eq!(explicit.child("a").unwrap().children.len(), 100);
    assert!(text::render(&model, SHOWN).lines().count() < 200);
    assert!(page::file(&model, "many").len() > 100_000 * 50);
    assert!(difference::between(&saved, &saved).reports.is_empty());
    assert!(began.elapsed().as_secs() < 60, "no quadratic step");
}

#[test]
fn nothing_in_a_path_is_markup_or_moves_the_cursor() {
    let odd = "explicit/<script>\u{1b}[2J/\u{202e}a\\b/\"&";
    let model = Model::of(&Saved::new(true, vec![heap(odd, 10), allocated(10)]));
    let (text, page) = (text::render(&model, SHOWN), page::file(&model, odd));
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[2J"), "{text}");
    assert!(text.contains("a/b"), "a backslash is a slash that does not divide: {text}");
    assert!(!page.contains("<script>") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
}

#[test]
fn readings_give_the_least_and_the_most() {
    let reading = |a: i64, gone: Option<i64>| {
        let mut reports = vec![allocated(100), heap("explicit/a", a)];
        reports.extend(gone.map(|amount| heap("explicit/gone", amount)));
        Model::of(&Saved::new(true, reports))
    };
    let mut model = reading(10, None);
    for next in [reading(30, Some(5)), reading(20, None)] {
        let earlier = std::mem::replace(&mut model, next);
        model.widen(&earlier);
    }
    assert_eq!(model.readings, 3);
    let explicit = model.processes[0].explicit.as_ref().unwrap();
    let range = |name: &str| {
        let node = explicit.child(name).unwrap();
        (node.min, node.amount, node.max)
    };
    assert_eq!(range("a"), (10, 20, 30));
    assert_eq!(range("gone"), (0, 0, 5));
    assert_eq!(range("heap-unclassified"), (65, 80, 90));
}

proptest! {
    #[test]
    fn any_reports_are_written_and_read_again(
        rows in prop::collection::vec(("[^/]{1,9}(/[^/]{0,9}){0,4}", any::<i64>(), 0..3_usize), 0..40)
    ) {
        let kinds = [Kind::NonHeap, Kind::Heap, Kind::Other];
        let report = |(path, amount, kind): &(String, i64, usize)| {
            report(&format!("t{path}"), kinds[*kind], Units::Bytes, *amount)
        };
        let saved = Saved::new(true, rows.iter().map(report).collect());
        prop_assert_eq!(Saved::read(&saved.write(true).unwrap()).unwrap(), saved.clone());
        let model = Model::of(&saved);
        let _ = text::render(&model, SHOWN);
        let all: i128 = rows.iter().map(|(_, amount, _)| i128::from(*amount)).sum();
        let roots = model.processes.iter().flat_map(|process| &process.other);
        let shown: i128 = roots.map(|root| i128::from(root.amount)).sum();
        if rows.iter().map(|(_, a, _)| i128::from(*a).abs()).sum::<i128>() < i128::from(i64::MAX) {
            prop_assert_eq!(all, shown);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Saved::read(&bytes);
    }
}
