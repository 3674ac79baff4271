//! `heaplab what-if` from the command line to the verdict, on the bundled recording of SQLite.

mod bundled;

use bundled::copied;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::{Event, EventSource, Op};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A copy of the bundled recording: replays keep their programs beside it.
fn sqlite(folder: &Path) -> PathBuf {
    copied("sqlite", folder)
}

fn what_if(bundle: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .arg("what-if")
        .arg(bundle)
        .args(arguments)
        .env("COLUMNS", "100")
        .output()
        .unwrap()
}

fn document(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_header_less_saves_what_the_size_classes_say() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = sqlite(folder.path());
    let less = ["--size", "*:-8", "--space", "--on", "jemalloc", "--json"];
    let found = document(&what_if(&bundle, &less));
    let slop = |when: &str| {
        let rows = found[when]["slop"].as_array().unwrap();
        let row = rows.iter().find(|row| row["basis"] == "jemalloc").unwrap();
        row["at_peak_usable_bytes"].as_f64().unwrap()
    };
    // What jemalloc has resident differs from run to run; what its classes give does not.
    assert_eq!(slop("before") - slop("after"), 396_528.0);
    for when in ["before", "after"] {
        let space = &found["replay"][when]["heaps"][0]["space"];
        assert_eq!(space["cells"], 3);
        assert!(space["peak_resident_bytes"].as_u64().unwrap() > 4 << 20, "{space}");
    }
    // The changed bundle is one like any other, and says whence it is.
    let changed = Bundle::open(&folder.path().join("sqlite.what-if.heaplab")).unwrap();
    changed.verify().unwrap();
    let origin = changed.meta().origin.clone().unwrap();
    assert_eq!(origin.bundle, bundle.display().to_string());
    assert_eq!(origin.changes, ["*: every request is 8 bytes less"]);
    assert_eq!(changed.meta().objects, Bundle::open(&bundle).unwrap().meta().objects);
}

#[test]
fn every_finding_can_be_tried_and_a_person_reads_what_comes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = sqlite(folder.path());
    let output =
        what_if(&bundle, &["--fix", "1", "--fix", "all-churn", "--reps", "1", "--on", "glibc"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("On glibc "), "{text}");
    for part in
        ["Changed: ", "Taken for granted: ", "peak resident", "time of a run", "heaplab report "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let few = "1 block is too few to say what its time would be (6 are needed: --reps; here the ratio is ";
    assert!(flat.contains(few), "{text}");
}

#[test]
fn what_cannot_be_done_is_said_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = sqlite(folder.path());
    for (arguments, part) in [
        (&[][..], "nothing is changed"),
        (&["--grow", "f"], "FUNCTION=FACTOR"),
        (&["--drop", "no_such_function"], "no stack has a function called"),
        (&["--drop", "*", "--except", "no_such_function"], "no stack has a function called"),
        (&["--drop", "sqlite3*", "--except", "*"], "no request of this recording is concerned"),
        (&["--except", "sqlite3_step"], "nothing is changed"),
        (&["--size", "sqlite3_step:3=2"], "no request of this recording is concerned"),
        (&["--fix", "999"], "no such finding; there are 1 "),
        (&["--fix", "all-leaks"], "no such finding"),
        (&["--drop", "sqlite3*", "--on", "nothing"], "--on"),
    ] {
        let said = refused(&what_if(&bundle, arguments));
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let output = what_if(&bundle, &["--drop", "sqlite3*", "-o", bundle.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("would be replaced"));
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "only the recording");
    Bundle::open(&bundle).unwrap().verify().unwrap();
}

/// The README's command gives the README's figures: the patch leaves what concat_exp asks for.
#[test]
fn requests_of_a_callee_stay_if_they_are_excepted() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = copied("what-if/gawk-before", folder.path());
    let grow = ["--grow", "r_interpret=pow2", "--space", "--on", "glibc", "--json"];
    let change = |arguments: &[&str]| {
        let found = document(&what_if(&bundle, arguments));
        let of = |when: &str, name: &str| found[when][name].as_i64().unwrap();
        ["peak_requested_bytes", "requests"].map(|name| of("after", name) - of("before", name))
    };
    assert_eq!(change(&[&grow[..], &["--except", "concat_exp"]].concat()), [238_462, -7_986]);
    // With them it grows twice as many buffers.
    assert_eq!(change(&grow)[1], -15_972);
    let advised = ["--fix", "all-growth", "--except", "concat_exp"];
    assert_eq!(change(&[&advised[..], &grow[2..]].concat())[1], -7_985);
}

#[test]
fn a_report_says_how_to_try_a_finding_and_what_trying_it_gave() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = copied("what-if/gawk-before", folder.path());
    let report = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_heaplab"))
            .arg("report")
            .arg(&bundle)
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = report(&["--allocator", "jemalloc"]);
    let asked =
        format!("Try it: heaplab what-if {} --allocator jemalloc --fix 1", bundle.display());
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat(&text).contains(&asked), "{text}");
    let tried: Value =
        serde_json::from_str(&report(&["--verify-savings", "--top", "4", "--json"])).unwrap();
    let saved = &tried["savings"][3];
    let requests = |which: usize| saved["requests"][which].as_u64().unwrap();
    assert_eq!((saved["finding"].as_u64(), saved["heap"].as_str()), (Some(4), Some("glibc")));
    // The fourth finding is of strings that grow with every addition: nearly all of those requests
    // go.
    assert!(requests(0) - requests(1) > 7_000, "{saved}");
    let text = report(&["--verify-savings", "--top", "4"]);
    assert!(flat(&text).contains("Replayed so on glibc: ") && !text.contains("--fix 1"), "{text}");
}

/// Every request of a recording: what it is, and of how many bytes.
fn requests(bundle: &Path) -> Vec<(Op, u64, u64)> {
    let mut requests = Vec::new();
    let bundle = Bundle::open(bundle).unwrap();
    let mut events = bundle.events(Selection::default()).unwrap();
    let push = |event: &Event| {
        requests.push((event.op, event.object, event.size));
        Ok(())
    };
    events.for_each(push).unwrap();
    requests
}

/// Twenty buffers of one function grow by hand in turn, beside a queue. The changed recording is
/// the recording of the changed program, request by request.
#[test]
fn buffers_grown_by_hand_in_turn_become_those_of_the_changed_program() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/buffers.c");
    for (name, capacity) in [
        ("just", "needed"),
        ("doubled", "larger(2*has,needed)"),
        ("half_more", "larger((3*has+1)/2,needed)"),
    ] {
        let built = Command::new("cc")
            .args(["-O1", "-g", &format!("-DCAPACITY(has,needed)=({capacity})"), "-o", name])
            .arg(&source)
            .current_dir(folder)
            .status();
        assert!(built.expect("a C compiler").success());
        let recorded = Command::new(env!("CARGO_BIN_EXE_heaplab"))
            .args(["record", "-o", &format!("{name}.heaplab"), "--", &format!("./{name}")])
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    }
    let just = folder.join("just.heaplab");
    let findings = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["report", "--json"])
        .arg(&just)
        .output()
        .unwrap();
    let findings = document(&findings);
    let findings = findings["findings"]["findings"].as_array().unwrap();
    let growths: Vec<_> = findings.iter().filter(|found| found["kind"] == "growth").collect();
    let [growth] = growths[..] else { panic!("the queue does not grow: {growths:#?}") };
    assert_eq!((&growth["function"], &growth["evidence"]["chains"]), (&"grow".into(), &20.into()));
    for (factor, changed) in [("2", "doubled"), ("1.5", "half_more")] {
        // The queue's function is named too, and stays as it is.
        let grow = format!("*={factor}");
        document(&what_if(&just, &["--grow", &grow, "--space", "--on", "glibc", "--json"]));
        let predicted = requests(&folder.join("just.what-if.heaplab"));
        let real = requests(&folder.join(format!("{changed}.heaplab")));
        let differs = predicted.iter().zip(&real).position(|(predicted, real)| predicted != real);
        assert_eq!((predicted.len(), differs), (real.len(), None), "{changed}");
        assert!(real.len() + 3000 < requests(&just).len(), "{changed}");
    }
}

/// The page of a report has the command of each finding and the measured saving; the page of a
/// what-if says what its text says.
#[test]
fn pages_show_the_command_the_saving_and_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = copied("what-if/gawk-before", folder.path());
    let (report, page) = (folder.path().join("report.html"), folder.path().join("what-if.html"));
    let written = Command::new(env!("CARGO_BIN_EXE_heaplab"))
        .args(["report", "--verify-savings", "--top", "1", "--json", "--html"])
        .args([&report, &bundle])
        .output()
        .unwrap();
    let told = document(&written);
    let model = data(&report);
    let findings = model["findings"].as_array().unwrap();
    let command = format!("heaplab what-if {} --fix ", bundle.display());
    assert_eq!(findings[0]["what_if"], format!("{command}1"));
    assert_eq!(findings[1]["what_if"], format!("{command}2"));
    let saved = findings[0]["saved"].as_str().unwrap();
    let heap = told["savings"][0]["heap"].as_str().unwrap();
    assert!(saved.starts_with(&format!("Replayed so on {heap}: ")), "{saved}");
    assert_eq!(findings[1]["saved"], "");

    let bundle = copied("what-if/zstd-before", folder.path());
    let asked = ["--size", "*:-8", "--reps", "2", "--on", "glibc,jemalloc", "--json", "--html"];
    let told = document(&what_if(&bundle, &[&asked[..], &[page.to_str().unwrap()]].concat()));
    let model = data(&page);
    assert_eq!(model["recording"], bundle.display().to_string());
    assert_eq!(model["verdict"].as_array().unwrap().len(), 2);
    assert!(model["verdict"][0].as_str().unwrap().starts_with("On glibc "));
    let heaps = &told["replay"]["after"]["heaps"];
    for (number, heap) in ["glibc", "jemalloc"].into_iter().enumerate() {
        let of_page = &model["heaps"][number];
        assert_eq!(of_page["name"], heap);
        let peak = &heaps[number]["space"]["peak_resident_bytes"];
        assert_eq!(&of_page["after"]["peak_bytes"], peak);
    }
    assert_eq!(&model["assumptions"], &told["origin"]["assumptions"]);
    // What is no page of heaplab stays.
    std::fs::write(&page, "mine").unwrap();
    let refused = what_if(&bundle, &["--size", "*:-8", "--html", page.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "mine");
}

/// The data of a page.
fn data(page: &Path) -> Value {
    let html = std::fs::read_to_string(page).unwrap();
    let (_, data) = html.split_once(r#"<script type="application/json" id="data">"#).unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_of_a_what_if_is_drawn_in_chromium() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let Some(mut node) = heaplab_oracle::browser_tests() else { return };
    let folder = tempfile::tempdir().unwrap();
    let bundle = copied("what-if/zstd-before", folder.path());
    let page = |name: &str, arguments: &[&str]| {
        let file = folder.path().join(name);
        let output = what_if(&bundle, &[arguments, &["--html", file.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty(), "a page replaces the text");
        file
    };
    let less = ["--size", "*:-8", "--reps", "2", "--on", "glibc,jemalloc"];
    let pages =
        [page("timed.html", &less), page("space.html", &[&less[..], &["--space"]].concat())];
    let status = node
        .arg(tests.join("what_if_page.mjs"))
        .env("HEAPLAB_PAGES", std::env::join_paths(pages).unwrap())
        .status();
    assert!(status.expect("node starts").success(), "the browser saw something else: see above");
}
