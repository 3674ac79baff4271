//! The report as a person sees it, on a small program with known answers, written as a bundle and
//! read back.

use super::report;
use crate::{Analysis, Report, Shown, analyse, json, moments, select};
use heaplab_text::paint::Look;
use heaplab_trace::bundle::{Bundle, BundleWriter, Meta};
use heaplab_trace::tables::{Ended, Frame, Mark, Process, StackNode, Tables, Thread};
use heaplab_trace::{Event, EventSink, FREED_BY_PROGRAM, Flags, NOTICED_AT_COLLECTION, Op};

/// `main` loads 200 pages of 4,104 bytes, handles 2,000 items with a state of its own, grows a list
/// by hand-picked steps, and leaks every tenth of 300 sessions. A second process allocates once.
fn recording(folder: &std::path::Path) -> Bundle {
    recording_of(folder, "glibc 2.36", FREED_BY_PROGRAM)
}

/// The same, recorded under another heap.
fn recording_of(folder: &std::path::Path, allocator: &str, death_rule: &str) -> Bundle {
    let functions =
        ["main", "load", "page_alloc", "xmalloc", "handle", "new_state", "append", "session"];
    let frames = functions.map(|name| Frame {
        function: Some(name.into()),
        file: Some("app.c".into()),
        line: 7,
        ..Frame::default()
    });
    let nodes = [(0, 0), (0, 0), (1, 1), (2, 2), (3, 3), (1, 4), (5, 5), (1, 6), (5, 7)];
    let process = |pid, name: &str| Process {
        pid,
        executable: format!("/usr/bin/{name}"),
        arguments: vec![name.into(), "--all".into()],
        ended: Ended::Exited(0),
        ended_ns: Some(1),
        ..Process::default()
    };
    let tables = Tables {
        frames: frames.to_vec(),
        stacks: nodes.map(|(parent, frame)| StackNode { parent, frame }).to_vec(),
        processes: vec![process(10, "app"), process(11, "helper")],
        threads: vec![Thread::default(), Thread { process: 1, ..Thread::default() }],
        marks: vec![Mark { name: "loaded".into(), time_ns: 0, process: Some(0) }],
        ..Tables::default()
    };
    let path = folder.join("app.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    let (mut born, mut rows) = (0, 0);
    let mut push = |event: Event| {
        rows += 1;
        let object = if event.op == Op::Alloc { born } else { event.object };
        born += u64::from(event.op == Op::Alloc);
        let usable = if event.size > 0 { (event.size + 8).next_multiple_of(16) - 8 } else { 0 };
        writer.push(&Event { object, usable, time_ns: rows * 1000, ..event }).unwrap();
        object
    };
    let birth = |stack, size| Event { op: Op::Alloc, stack, size, ..Event::default() };
    let death = |object| Event { op: Op::Free, object, ..Event::default() };
    push(Event { process: 1, thread: 1, ..birth(1, 64) });
    let pages: Vec<u64> = (0..200).map(|_| push(birth(4, 4104))).collect();
    push(Event { op: Op::Mark, object: 0, ..Event::default() });
    let list = push(birth(7, 512));
    for turn in 0..2000 {
        let state = push(Event { flags: Flags::ZEROED, ..birth(6, 256) });
        if turn % 100 == 99 {
            push(Event {
                op: Op::Realloc,
                object: list,
                flags: Flags::MOVED,
                stack: 7,
                size: 512 + (turn + 1) * 8,
                ..Event::default()
            });
        }
        if turn % 7 == 0 {
            let session = push(birth(8, 700));
            if turn % 70 != 0 {
                push(death(session));
            }
        }
        push(death(state));
    }
    push(death(list));
    for page in pages {
        push(death(page));
    }
    let meta = Meta {
        program: "app --all".into(),
        allocator: allocator.into(),
        death_rule: death_rule.into(),
        stack_depth: 64,
        duration_ns: rows * 1000,
        cut: Some("the program's last ring was full when heaplab was killed".into()),
        ..Meta::default()
    };
    writer.finish(&tables, meta).unwrap();
    Bundle::open(&path).unwrap()
}

fn text(wanted: &[&str], between: bool, look: &Look) -> String {
    let folder = tempfile::tempdir().unwrap();
    text_of(&recording(folder.path()), wanted, between, look)
}

fn text_of(bundle: &Bundle, wanted: &[&str], between: bool, look: &Look) -> String {
    bundle.verify().unwrap();
    let wanted: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
    let (selection, peaks) = select(bundle, None, &mut |_| {}).unwrap();
    let requests =
        moments::requests(&wanted, bundle.tables(), bundle.meta().duration_ns, selection)
            .unwrap()
            .0;
    let analysis =
        Analysis { peaks, ..analyse(bundle, selection, None, requests, &mut |_| {}).unwrap() };
    let shown = moments::shown(&wanted, between, &analysis.profile).unwrap();
    report(&Report::new(bundle, &analysis, &shown), look)
}

#[test]
fn a_heap_that_collects_has_no_findings_of_malloc() {
    let folder = tempfile::tempdir().unwrap();
    let bundle =
        recording_of(folder.path(), "OCaml 4.13.1 (s=262144,o=80,a=2)", NOTICED_AT_COLLECTION);
    let report = text_of(&bundle, &[], false, &PIPED);
    for malloc in ["Slop", "usable", "jemalloc", "freed", "What to change", "->", "zeroed"] {
        assert!(!report.contains(malloc), "{malloc}: {report}");
    }
    for said in ["Who holds the peak", "Who holds live memory at the end", "Most frequent sizes"] {
        assert!(report.contains(said), "{said}: {report}");
    }
    assert_eq!(report.matches("deaths noticed at collections").count(), 1, "{report}");
}

#[test]
fn what_has_nothing_between_it_is_no_pair_of_moments() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = recording(folder.path());
    let (selection, _) = select(&bundle, None, &mut |_| {}).unwrap();
    let between = |pair: [&str; 2]| {
        let wanted = pair.map(String::from);
        let requests =
            moments::requests(&wanted, bundle.tables(), bundle.meta().duration_ns, selection)
                .unwrap()
                .0;
        let analysis = analyse(&bundle, selection, None, requests, &mut |_| {}).unwrap();
        moments::shown(&wanted, true, &analysis.profile)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    for same in [["loaded", "loaded"], ["end", "end"], ["1ms", "1ms"]] {
        let error = between(same).unwrap_err();
        assert!(error.contains("are the same moment") && error.contains(same[0]), "{error}");
    }
    assert!(between(["end", "loaded"]).unwrap_err().contains("name the earlier moment first"));
    assert_eq!(between(["loaded", "end"]), Ok(()));
}

#[test]
fn marks_are_listed_with_what_was_live() {
    let report = text(&[], false, &PIPED);
    let marks = report.split("\n\n").find(|section| section.starts_with("Marks")).unwrap();
    // 200 pages of 4,104 bytes; its own event is the 202nd.
    assert_eq!(
        marks,
        "Marks\n      time          live       objects  mark\n      0 ns       802 KiB           200  loaded"
    );
}

#[test]
fn who_uses_their_slop_is_said_in_number_and_without_a_stack() {
    let said = [(1, 1, ""), (1, 5266, "main  app.c:7"), (2, 5266, "main  app.c:7"), (2, 2, "")];
    insta::assert_snapshot!(said.map(|(sites, reads, first)| super::uses_its_slop(sites, reads, first)).join("\n"), @"
    1 site reads its usable size (1 time) and may use its slop; it is not called waste.
    1 site reads its usable size (5,266 times) and may use its slop; it is not called waste. It is main  app.c:7
    2 sites read their usable size (5,266 times) and may use their slop; it is not called waste. The first: main  app.c:7
    2 sites read their usable size (2 times) and may use their slop; it is not called waste.
    ");
}

const PIPED: Look = Look { width: 80, listing_width: 80, colour: false, top: 10 };

#[test]
fn the_whole_report() {
    insta::assert_snapshot!("report", text(&[], false, &PIPED));
}

#[test]
fn a_moment_and_two() {
    let section = |text: String, heading: &str| {
        let from = text.find(heading).unwrap();
        text[from..].split("\n\n").next().unwrap().to_string()
    };
    let at = text(&["loaded"], false, &PIPED);
    let between = text(&["loaded", "end"], true, &PIPED);
    insta::assert_snapshot!(
        "moments",
        format!("{}\n\n{}", section(at, "At loaded"), section(between, "Between loaded"))
    );
}

#[test]
fn lines_fit_a_narrow_terminal_and_colours_come_only_when_asked() {
    let narrow = text(
        &["loaded", "end"],
        true,
        &Look { width: 60, listing_width: 60, colour: false, top: 3 },
    );
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    assert!(!narrow.contains('\x1b'));
    assert!(text(&[], false, &Look { colour: true, ..PIPED }).contains("\x1b[1;36m"));
}

#[test]
fn the_json_document_says_what_the_text_says() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = recording(folder.path());
    let (selection, _) = select(&bundle, Some("app"), &mut |_| {}).unwrap();
    let analysis = analyse(&bundle, selection, None, Vec::new(), &mut |_| {}).unwrap();
    let document = json::document(&Report::new(&bundle, &analysis, &Shown::Nothing)).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(
        (document["format"].as_str(), document["version"].as_u64()),
        (Some("heaplab-report"), Some(3))
    );
    assert_eq!(document["process"], 0);
    assert_eq!(document["meta"]["allocator"], "glibc 2.36");
    let last = document["findings"]["findings"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (last["kind"].as_str(), &last["evidence"]["elsewhere"]),
        (Some("clownshoes"), &true.into())
    );
    assert_eq!(last["evidence"]["sizes"][0]["request"], 4104);
    assert_eq!(last["stacks"][0]["frames"][1], "page_alloc  app.c:7");
    let peak = document["profile"]["stacks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["at_peak"]["bytes"].as_u64().unwrap())
        .sum::<u64>();
    assert_eq!(document["profile"]["peak"]["live"]["bytes"], peak);
}

#[test]
fn what_cannot_be_shown_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = recording(folder.path());
    let error = select(&bundle, Some("nobody"), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("nobody") && error.contains("10 app, 11 helper"), "{error}");
    let (all, _) = select(&bundle, Some("all"), &mut |_| {}).unwrap();
    let error =
        moments::requests(&["laoded".into()], bundle.tables(), 1, all).unwrap_err().to_string();
    assert!(error.contains("laoded") && error.contains("the marks are: loaded"), "{error}");
    let error =
        moments::requests(&["5ms".into()], bundle.tables(), 0, all).unwrap_err().to_string();
    assert!(error.contains("`5ms` is a time") && error.contains("no time stamps"), "{error}");
    let analysis = analyse(&bundle, all, None, Vec::new(), &mut |_| {}).unwrap();
    let error = moments::shown(&["end".into(), "peak".into()], true, &analysis.profile)
        .unwrap_err()
        .to_string();
    assert!(error.contains("name the earlier moment first"), "{error}");
}

#[test]
fn a_block_that_is_freed_twice_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    let tables = Tables {
        processes: vec![Process::default()],
        threads: vec![Thread::default()],
        ..Tables::default()
    };
    for op in [Op::Alloc, Op::Free, Op::Free] {
        writer.push(&Event { op, size: u64::from(op == Op::Alloc), ..Event::default() }).unwrap();
    }
    writer.finish(&tables, Meta::default()).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    let (selection, _) = select(&bundle, None, &mut |_| {}).unwrap();
    let analysis = analyse(&bundle, selection, None, Vec::new(), &mut |_| {}).unwrap();
    let text = report(&Report::new(&bundle, &analysis, &Shown::Nothing), &PIPED)
        .replace("\n! ", " ")
        .replace('\n', " ");
    assert!(
        text.contains("1 row is about an object that is not live there: its birth was not recorded, or the recording is damaged"),
        "{text}"
    );
}

/// A phase that ends early leaks every tenth block: it did not grow with the run, but its site
/// freed the others.
#[test]
fn a_site_that_freed_most_and_kept_some_is_told_from_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("phase.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    let tables = Tables {
        frames: vec![
            Frame { function: Some("load".into()), ..Frame::default() },
            Frame { function: Some("work".into()), ..Frame::default() },
        ],
        stacks: [(0, 0), (0, 0), (0, 1)]
            .map(|(parent, frame)| StackNode { parent, frame })
            .to_vec(),
        processes: vec![Process { ended: Ended::Exited(0), ..Process::default() }],
        threads: vec![Thread::default()],
        ..Tables::default()
    };
    for object in 0..2000 {
        let (stack, time_ns) = (if object < 500 { 1 } else { 2 }, 1000 + object * object);
        writer
            .push(&Event { op: Op::Alloc, object, size: 300, stack, time_ns, ..Event::default() })
            .unwrap();
        if object >= 500 || object % 10 > 0 {
            writer.push(&Event { op: Op::Free, object, time_ns, ..Event::default() }).unwrap();
        }
    }
    writer.finish(&tables, Meta::default()).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    let (selection, _) = select(&bundle, None, &mut |_| {}).unwrap();
    let analysis = analyse(&bundle, selection, None, Vec::new(), &mut |_| {}).unwrap();
    let text = report(&Report::new(&bundle, &analysis, &Shown::Nothing), &PIPED);
    assert!(text.contains("2,000 requests, 1 distinct size:"), "{text}");
    assert!(
        text.contains("load: 14.6 KiB still live at the end, 50 of 500 objects made; free them"),
        "{text}"
    );
    let end = &text[text.find("Live at the end").unwrap()..];
    assert!(end.contains("The largest part is a finding above; no other place"), "{text}");
}

/// A site keeps 20 pages at a time beside a table of 100 MiB: a better size saves a fiftieth of a
/// thousandth of the peak.
#[test]
fn what_is_too_small_for_a_first_screen_is_counted_there_and_shown_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.heaplab");
    let mut writer = BundleWriter::create(&path).unwrap();
    let tables = Tables {
        frames: ["table", "page"]
            .map(|name| Frame { function: Some(name.into()), ..Frame::default() })
            .to_vec(),
        stacks: [(0, 0), (0, 0), (0, 1)]
            .map(|(parent, frame)| StackNode { parent, frame })
            .to_vec(),
        processes: vec![Process { ended: Ended::Exited(0), ..Process::default() }],
        threads: vec![Thread::default()],
        ..Tables::default()
    };
    let birth = |object, stack, size, usable| Event {
        op: Op::Alloc,
        object,
        stack,
        size,
        usable,
        ..Event::default()
    };
    let death = |object| Event { op: Op::Free, object, ..Event::default() };
    writer.push(&birth(0, 1, 100 << 20, 100 << 20)).unwrap();
    for pages in (1..=400u64).collect::<Vec<_>>().chunks(20) {
        pages.iter().for_each(|page| writer.push(&birth(*page, 2, 4104, 5120)).unwrap());
        pages.iter().for_each(|page| writer.push(&death(*page)).unwrap());
    }
    writer.push(&death(0)).unwrap();
    writer.finish(&tables, Meta::default()).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    let (selection, _) = select(&bundle, None, &mut |_| {}).unwrap();
    let analysis = analyse(&bundle, selection, None, Vec::new(), &mut |_| {}).unwrap();
    let text =
        |top| report(&Report::new(&bundle, &analysis, &Shown::Nothing), &Look { top, ..PIPED });
    let [first_screen, all] = [text(10), text(11)];
    let finding = "4,104-byte requests, 8 bytes over 4,096";
    assert!(!first_screen.contains(finding) && all.contains(finding), "{first_screen}\n{all}");
    assert!(
        first_screen.contains("1 finding under 0.1 % of the peak; --top 11 shows it"),
        "{first_screen}"
    );
}
